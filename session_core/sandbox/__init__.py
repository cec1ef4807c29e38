"""Confines an agent to the folder it works in.

- `openat`: `open_beneath`, which opens a path under a folder and never leaves it, even if folders are swapped for links
- `workspace`: `Workspace`, the files a tool may touch; the only way for tools to reach them
- `file_values`: the values a workspace returns; `folder_walk`: walks through folders
- `protected_paths`: names such as `.git` and files such as `~/.bashrc`, whose change would run code outside the sandbox
- `protected_scan`: `find_protected`, which finds everything protected in a folder
- `folder_states`: asks about many folders at once which ones have not changed
- `protected_items`: one such thing, and whether it is still the same
- `protected_targets`: where links and git's own pointers lead
- `guard`: `GuardedRun`: what a command has left behind is compared with what was there before
- `quarantine`: `set_aside`, which renames what should not be there
- `ignore`: `IgnoreRules`, the files that `.gitignore` files exclude from a walk
- `bubblewrap`: `find_bubblewrap`, and `sandbox_argv`, which turns a plan into a command line
- `home_directory`: what programs and file tools see of a home directory; `open_sockets`: what hides other sockets
- `landlock`: `start_thread`, which confines what it starts once more, where the kernel can
- `plan`: `SandboxPlan` and `plan_sandbox`, which looks at the disk and decides what is mounted where
- `secrets`: the files and variables that programs never see: keys, tokens; `clean_environment`
- `seccomp`: the system calls that programs may not use
- `trust`: `TrustStore`: files of a project are data until a person trusts exactly these

The kernel decides, never a comparison of strings: paths are opened beneath descriptors, programs run in namespaces.
Input: paths and commands of a model, which are assumed to be hostile. Output: files, or a refusal in plain words. All
of it blocks: call it in a worker thread.
"""
