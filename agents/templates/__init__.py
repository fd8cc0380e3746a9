"""What a chat template can do, and how to say a conversation in its terms with exact tokens."""
