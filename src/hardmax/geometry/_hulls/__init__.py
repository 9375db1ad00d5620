"""The search for the extreme points of a set, with exact decisions."""
