from .head_pages import write_survey as write_survey
from .head_slices import HeadSlice as HeadSlice
from .head_slices import query_slice as query_slice
from .head_surveys import HeadSurvey as HeadSurvey
from .head_surveys import survey_heads as survey_heads
from .token_slices import TokenSlice as TokenSlice
from .token_slices import token_slices as token_slices
