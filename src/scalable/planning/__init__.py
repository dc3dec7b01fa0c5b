"""Answers before anything is paid: plans, options, months, growth and acceptance, all by simulating the engine."""

from scalable.planning.campaign import Campaign, plan_all
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.site import Machine, Site

__all__ = ["Campaign", "Choice", "History", "Machine", "Plan", "Site", "plan_all", "plan_sweep"]
