// Shows the OpenAPI document of the service; validatorUrl null: nobody else is asked about it.

SwaggerUIBundle({ url: "openapi.json", dom_id: "#interface", validatorUrl: null });
