"""Rules that ask what a dry run saw: layer V. They are loaded only when there was one.

A rule is one file ``run_rules/FAMILY/NAME.py`` with the same parts as one that reads (see ``preflight.check.rule``), and
``observe(run)`` in the place of ``check(context)``. Where reading knows the rule too, ``RULE`` is imported from its file
under ``rules``, and the page is there. ``SETTLES = True`` says that what is read and does not show in a complete run is
not so: the finding of reading is dropped. ``ALONE = False`` says that what is seen only confirms what was read.
"""
