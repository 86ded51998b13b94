"""Parts of every HTTP request: middleware, the OpenAPI document, error reports."""
