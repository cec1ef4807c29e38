"""What other hosts of the protocol prove by test, in our words, and where it is proved here."""

import pytest

from tests.session_core.sep._named_tests import is_there

PROOFS: dict[str, tuple[str, ...]] = {
    # messages
    "the four shapes of a message are told apart and read back": (
        "../rpc/test_messages::test_what_is_understood",
        "../rpc/test_messages::test_what_is_written_is_read_back",
    ),
    "a request has neither result nor error, a notification no id": (
        "../rpc/test_messages::test_what_is_written_is_read_back",
    ),
    "an unknown method is an error of its own": (
        "test_inbound::test_unknown_methods",
        "../rpc/test_connection::test_unknown_methods_are_refused",
    ),
    "an error of the other side is an exception with its code": ("test_host::test_tools_and_commands_of_extensions",),
    "outcomes of hooks are read, and unknown ones are failures": (
        "test_hooks::test_outcomes_are_read",
        "test_hooks::test_answers_that_cannot_be_read_are_failures",
    ),
    "the greeting and its answer": (
        "test_host::test_how_an_extension_is_greeted",
        "test_registrations::test_everything_is_read",
        "test_registrations::test_nothing_is_nothing",
    ),
    # manifests
    "the shortest manifest, and a full one": (
        "test_manifest::test_the_shortest_manifest_has_defaults",
        "test_manifest::test_every_key_is_read",
    ),
    "a manifest that is no good is an error": ("test_manifest::test_a_wrong_key_is_named",),
    "references to variables, with and without an end": ("test_launch::test_references_to_variables",),
    "a project comes before the user, one bad manifest is tolerated, missing folders are empty": (
        "test_discovery::test_a_project_wins_when_it_may_run",
        "test_discovery::test_one_bad_extension_spoils_no_other",
        "test_discovery::test_missing_folders_are_empty",
    ),
    "an untrusted project starts nothing": ("test_discovery::test_what_is_not_trusted_is_not_read",),
    "a list of names allows no other": ("test_discovery::test_a_list_of_names_allows_no_other",),
    # processes
    "the environment is scrubbed, and the manifest has the last word": (
        "test_launch::test_the_environment_is_a_list_of_what_is_allowed",
        "test_extension::test_the_environment_is_scrubbed",
    ),
    "the program is what was pinned": (
        "test_launch::test_the_pin_of_the_program",
        "test_launch::test_a_command_that_cannot_be_run_is_refused",
    ),
    "a sandbox, and what without one": (
        "test_launch::test_what_a_sandbox_table_means",
        "test_launch::test_a_confined_extension",
        "test_launch::test_who_wants_a_sandbox_does_not_run_without",
    ),
    "a process starts, is greeted, answers, and is pinged": (
        "test_extension::test_an_extension_starts_answers_and_ends",
        "test_supervision::test_an_answered_ping_is_a_sign_of_life",
        "test_inbound::test_ping",
    ),
    "silence has an end, and what is dead is told": (
        "../rpc/test_connection::test_a_timeout_tells_the_other_side",
        "test_extension::test_a_crash_fails_the_request_and_is_followed_by_a_restart",
    ),
    "three more tries after crashes": ("test_supervision::test_crashes_are_followed_by_restarts_after_growing_waits",),
    "the oldest events are shed, counted, and their loss is told without a number": (
        "../rpc/test_outbox::test_the_oldest_events_are_shed",
        "../rpc/test_connection::test_events_are_told_with_their_loss",
        "test_weaknesses::test_13_a_flood_of_events_starves_no_request",
    ),
    # hooks
    "patches are handed on, the first no ends it, and a no without a reason has one": (
        "test_hooks::test_patches_are_laid_over_the_value_one_after_the_other",
        "test_hooks::test_the_first_no_ends_it",
    ),
    "a failure is a no where something is protected, and keeps earlier patches elsewhere": (
        "test_hooks::test_a_failure_blocks_what_a_hook_protects_and_nothing_else",
    ),
    "a hook that hangs blocks what it protects and stalls nothing": ("test_hooks::test_silence_has_an_end",),
    "only the owner changes the arguments of a tool": (
        "test_hooks::test_only_the_owner_changes_the_arguments_of_a_call",
    ),
    "hooks change a turn: prompt, conversation, results, and a veto before anything runs": (
        "test_host::test_what_hooks_decide_counts",
        "test_host::test_every_hook_is_really_asked",
    ),
    "without extensions nothing is different": ("test_host::test_no_extensions_change_nothing",),
    # contexts
    "only an open dispatch of the command tier may act, and the service sees nothing else": (
        "test_inbound::test_an_open_dispatch_may_act",
        "test_inbound::test_the_order_of_refusals",
        "test_contexts::test_an_event_is_known_but_never_acts",
    ),
    "nobody to ask, no program, values that are kept": (
        "test_inbound::test_kinds_that_nobody_can_show",
        "test_inbound::test_programs_need_a_context",
        "test_inbound::test_values_belong_to_the_extension_by_its_manifest",
    ),
    "dialogs are answered, denied, and end with those who asked": (
        "test_inbound::test_every_kind_of_dialog",
        "test_inbound::test_an_extension_may_take_its_question_back",
        "test_weaknesses::test_11_an_open_dialog_holds_nothing_up",
        "test_sdk_style::test_dialogs_without_a_context_reach_the_session",
    ),
    # tools, commands, events
    "subscriptions are those of the manifest at most": ("test_registrations::test_events_are_clamped",),
    "a tool is called by its dotted name, end to end": (
        "test_host::test_tools_and_commands_of_extensions",
        "test_tools::test_a_real_process_runs_a_tool",
    ),
    "tools may be switched off and narrowed": (
        "test_host::test_a_tool_that_was_switched_off_is_not_shown",
        "test_weaknesses::test_26_what_other_hosts_leave_out",
    ),
    "deferred tools are hidden until they are found": (
        "test_tools::test_deferred_tools_are_found_by_searching_for_them",
        "test_tools::test_a_model_searches_and_calls_in_a_real_turn",
    ),
    "progress is streamed, a call is cancelled, and the process stays usable": (
        "test_tools::test_cancelling_a_call_cancels_it_in_the_extension",
        "test_sdk_style::test_no_line_is_anything_but_an_object",
    ),
    "events of a turn come in order, also at its limit": (
        "test_host::test_every_event_is_really_told",
        "test_host::test_the_end_of_a_turn_is_told_however_it_ends",
    ),
    "the bus, keys of widgets, templates of messages": (
        "test_host::test_every_event_is_really_told",
        "test_registrations::test_everything_is_read",
    ),
    "a reload brings a new process and keeps the extension": ("test_host::test_a_reload_takes_the_new_files",),
    # models
    "a registered provider is on offer, an unknown one is not": (
        "test_providers::test_models_are_listed",
        "test_providers::test_logins_of_providers_that_have_none",
    ),
    "an answer with and without pieces, every field of it, and pieces of nobody": (
        "test_provider_answer::test_a_result_alone_is_a_whole_answer",
        "test_provider_stream::test_what_is_streamed_is_told_once",
        "test_provider_stream::test_pieces_of_somebody_else_are_passed_over",
        "test_providers::test_a_real_process_answers",
    ),
    "logging in, and renewing it": (
        "test_logins::test_a_login_is_handed_back",
        "test_logins::test_a_login_is_renewed_before_it_runs_out",
    ),
}


@pytest.mark.parametrize("behaviour", PROOFS)
def test_every_behaviour_has_its_tests(behaviour: str) -> None:
    """The tests that are named are there."""
    assert [] == [test for test in PROOFS[behaviour] if not is_there(test)]
