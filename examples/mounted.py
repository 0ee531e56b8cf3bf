"""The service inside an application of your own: uvicorn mounted:api --app-dir examples

Without keys it answers on this machine only; leave `with_keys` out to have them.
"""

import os

from fastapi import FastAPI

from driftbandits.service import Settings, app

store = os.environ.get("DRIFTBANDITS_STORE", "sqlite:///driftbandits.db")
bandits = app(Settings(store, with_keys=False))
api = FastAPI(lifespan=lambda _: bandits.router.lifespan_context(bandits))
api.mount("/bandits", bandits)


@api.get("/")
def home() -> dict[str, str]:
    """Say where the bandits are."""
    return {"interface": "/bandits/docs", "page": "/bandits/"}
