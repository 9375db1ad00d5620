from .exploring import Exploration as Exploration
