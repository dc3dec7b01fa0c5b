"""Answers before anything is paid: sizes, rules, simulation, plans, options, months, growth and acceptance."""
