"""The JSON between client and service: strict where it is asked, lenient where it is read."""

import inspect

import msgspec
import pytest

import driftbandits as db
from driftbandits import api, client
from driftbandits.service.configuration import PolicyRequest


def structs(base: type) -> list[type]:
    return [one for kind in base.__subclasses__() for one in (kind, *structs(kind))]


def test_every_request_refuses_what_it_does_not_list():
    requests = [*structs(api.Request), api.OfferedArm]
    assert api.DecisionRequest in requests
    for request in requests:
        assert request.__struct_config__.forbid_unknown_fields, request


def test_what_a_later_service_adds_does_not_disturb_a_client():
    arm = {"id": "an id of a new kind!", "x": [1.0], "colour": {"price": 2}}
    event = {"seq": 1, "at": "now", "kind": "dream", "arms": [arm], "mood": "good"}
    later = {"events": [event], "next": 1, "previous": 0}
    events = msgspec.json.decode(msgspec.json.encode(later), type=client.Events)
    assert events.events[0].kind == "dream"
    assert events.events[0].arms == [client.Arm("an id of a new kind!", [1.0])]
    reward = msgspec.json.decode(b'{"status": "doubted", "why": 1}', type=client.Reward)
    assert reward.status == "doubted"


def test_what_the_client_sends_is_what_the_service_reads():
    given = api.DecisionRequest("e1", [api.OfferedArm("a", [1.0, 0.5])])
    sent = msgspec.json.encode(given)
    assert sent == b'{"event_id":"e1","arms":[{"id":"a","x":[1.0,0.5]}]}'  # no word for nothing
    assert msgspec.json.decode(sent, type=api.DecisionRequest) == given


def test_a_policy_is_configured_by_the_arguments_it_is_made_with():
    known = set(PolicyRequest.__struct_fields__)
    arguments = set(inspect.signature(db.policy).parameters)
    assert known == arguments | set(api.PolicyRequest.__struct_fields__)
    assert not arguments & set(api.PolicyRequest.__struct_fields__)
    with pytest.raises(msgspec.ValidationError, match="missing required field `name`"):
        msgspec.json.decode(b'{"dim": 2}', type=PolicyRequest)
