"""What every HTTP request gets: middleware, the OpenAPI document, error reports."""
