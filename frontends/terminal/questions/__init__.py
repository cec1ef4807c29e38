"""The questions to the person at the terminal: approvals of tool calls and dialogs of extensions.

- `panel`: the widget that shows one question at a time, with the line in which it is answered
- `answers`: a question and its possible answers, as values
- `approval_view`, `dialog_view`: an approval and a dialog as such a question
- `question_lines`: the lines drawn around a question; `untrusted_view`: text of others, in a frame it cannot imitate
- `question_order`: which questions are for this terminal, and in what order
- `key_guard`: ignores keys pressed before the question could be read
"""
