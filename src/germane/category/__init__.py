"""Content graphs (paper Notification): categories, who covers whom, and how to find it fast."""

from germane.category.graph import ContentGraph, Report

__all__ = ["ContentGraph", "Report"]
