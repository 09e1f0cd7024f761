"""HTTP routes. Any node accepts any request and forwards it to the node that serves it, with the caller's token."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from argosy.base.errors import ArgosyError, Invalid
from argosy.base.http import error_response, json_response, read_body
from argosy.jobs.model import FIND_DEFAULT, FIND_MAX, NO_TENANT, PAYLOAD_BYTES_MAX, JobStatus
from argosy.jobs.sdk.client import JobHandle, JobsClient
from argosy.jobs.sdk.codec import pack
from argosy.jobs.sdk.errors import JobCancelled, JobFailed, NotDone
from argosy.jobs.sdk.task_leases import HeldTask, TaskLeases
from argosy.jobs.web import bodies

BODY_BYTES_MAX = 2 * PAYLOAD_BYTES_MAX  # base64 takes 4/3 of the payload; the rest is for the other fields
TENANT_HEADER = "x-argosy-tenant"
_FORWARDED = ("authorization", "traceparent")
_FALSE_WORDS = {"0", "false", "no", ""}

Answer = Callable[[Request, JobsClient], Awaitable[Response]]


def jobs_routes(client: JobsClient) -> list[BaseRoute]:
    """Routes for a server; `client` reaches all nodes."""

    def route(path: str, answer: Answer, method: str) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                return await answer(request, _client_of(client, request))
            except ArgosyError as error:
                return error_response(error)

        return Route(path, endpoint, methods=[method])

    # Ids may contain slashes (a schedule's job has its name in its id), hence `path`. Starlette takes the first route
    # that matches, so the longer paths come before `/v1/jobs/{id:path}`.
    controls = [
        route("/v1/jobs/{id:path}/" + name, _control(name), "POST") for name in ("cancel", "restart", "expedite")
    ]
    return [
        route("/v1/jobs", _enqueue, "POST"),
        route("/v1/jobs", _find, "GET"),
        route("/v1/jobs/requeue", _requeue, "POST"),
        *controls,
        route("/v1/jobs/{id:path}/requeue", _requeue_one, "POST"),
        route("/v1/jobs/{id:path}/result", _result, "GET"),
        route("/v1/jobs/{id:path}", _get, "GET"),
        route("/v1/jobs/{id:path}", _delete, "DELETE"),
        route("/v1/tasks/lease", _lease, "POST"),
        route("/v1/tasks/heartbeat", _heartbeat, "POST"),
        route("/v1/tasks/report", _report, "POST"),
        route("/v1/schedules", _schedules, "GET"),
        route("/v1/schedules/{name:path}", _put_schedule, "PUT"),
        route("/v1/schedules/{name:path}", _delete_schedule, "DELETE"),
        route("/v1/shards", _shards, "GET"),
    ]


def _client_of(client: JobsClient, request: Request) -> JobsClient:
    # The caller's own token is forwarded: the node that serves the shard decides, and this one needs no rights.
    headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    tenant = request.headers.get(TENANT_HEADER) or request.query_params.get("tenant")
    return client.caller(headers, tenant=tenant or NO_TENANT)


async def _body(request: Request) -> bytes:
    return await read_body(request, bytes_max=BODY_BYTES_MAX)


async def _enqueue(request: Request, client: JobsClient) -> Response:
    """201 and the id for one job; 200 and a result for each of several."""
    jobs, are_many = bodies.read_jobs(await _body(request), client.tenant)
    answers = await client.enqueue_many(jobs)
    if are_many:
        return json_response({"results": [_to_enqueue_result(answer) for answer in answers]})
    if isinstance(answers[0], ArgosyError):
        raise answers[0]
    return json_response(_to_enqueue_result(answers[0]), 201)


def _to_enqueue_result(answer: JobHandle | ArgosyError) -> object:
    return {"error": bodies.error_to_json(answer)} if isinstance(answer, ArgosyError) else {"id": answer.id}


async def _get(request: Request, client: JobsClient) -> Response:
    with_attempts = _flag(request, "attempts")
    info = await client.get(request.path_params["id"], with_attempts=with_attempts)
    return json_response(bodies.job_to_json(info, with_attempts=with_attempts))


async def _result(request: Request, client: JobsClient) -> Response:
    """200 when the job is done, whatever its outcome; 202 before. `?wait_s=` waits."""
    id = request.path_params["id"]
    # Capped and not rejected: the client gets 202 and asks for the rest of its wait.
    wait_s = min(_number(request, "wait_s", 0.0), bodies.WAIT_S_MAX)
    try:
        await client.result(id, timeout_s=wait_s)
    except JobFailed as failure:  # an answer about the job, not a failure of the request
        error = {"code": failure.code, **bodies.bytes_to_json("data", pack(failure.data))}
        return json_response({"id": id, "status": "failed", "error": error})
    except JobCancelled:
        return json_response({"id": id, "status": "cancelled"})
    except NotDone:
        return json_response({"id": id, "status": (await client.get(id)).status.name.lower()}, 202)
    # Read again, because `result` returns the decoded value only, and the bytes decide how JSON shows it.
    info = await client.get(id)
    return json_response({"id": id, "status": "succeeded", **bodies.bytes_to_json("result", info.result_bytes or b"")})


async def _find(request: Request, client: JobsClient) -> Response:
    params = request.query_params
    found = await client.find(
        status=_status(params.get("status")),
        metadata=_pair(params.get("metadata")),
        is_dead=_flag(request, "dead"),
        after=params.get("after", ""),
        limit=_limit(request),
    )
    return json_response({"jobs": [bodies.job_to_json(info) for info in found]})


def _control(name: str) -> Answer:
    async def answer(request: Request, client: JobsClient) -> Response:
        id = request.path_params["id"]
        await getattr(client, name)(id)
        return json_response({"id": id})

    return answer


async def _requeue_one(request: Request, client: JobsClient) -> Response:
    id = request.path_params["id"]
    error = (await client.requeue([id]))[id]
    if error is not None:
        raise error
    return json_response({"id": id})


async def _requeue(request: Request, client: JobsClient) -> Response:
    body = bodies.read(await _body(request), bodies.RequeueBody)
    bodies.check_batch(len(body.ids))
    response = await client.requeue(body.ids, limit=body.limit)
    return json_response({"results": [_item(id, error) for id, error in response.items()]})


async def _delete(request: Request, client: JobsClient) -> Response:
    await client.delete(request.path_params["id"])
    return Response(status_code=204)


async def _lease(request: Request, client: JobsClient) -> Response:
    """Tasks of all tenants, so a tenant's key is rejected. Floating limits are not refreshed over HTTP."""
    body = bodies.read(await _body(request), bodies.LeaseBody)
    if not (1 <= body.max_tasks <= bodies.TASKS_MAX and 0 <= body.wait_s <= bodies.WAIT_S_MAX):
        raise Invalid(f"max_tasks must be 1 to {bodies.TASKS_MAX} and wait_s 0 to {bodies.WAIT_S_MAX:g}")
    # Refreshes that are leased along with the tasks are not returned: their leases expire, and an SDK worker gets them.
    leases = TaskLeases(client.router, body.worker)
    response = await leases.lease_anywhere(body.task_group, body.max_tasks, wait_s=body.wait_s)
    return json_response({"tasks": [bodies.task_to_json(task) for task in response.tasks]})


async def _heartbeat(request: Request, client: JobsClient) -> Response:
    body = bodies.read(await _body(request), bodies.HeartbeatsBody)
    bodies.check_batch(len(body.tasks))
    held = [
        (HeldTask(each.task, each.tenant or client.tenant), None if each.progress is None else pack(each.progress))
        for each in body.tasks
    ]
    response = await TaskLeases(client.router, body.worker).heartbeat(held)
    results = [_heartbeat_result(each.task, answer) for each, answer in zip(body.tasks, response, strict=True)]
    return json_response({"results": results})


async def _report(request: Request, client: JobsClient) -> Response:
    body = bodies.read(await _body(request), bodies.OutcomesBody)
    bodies.check_batch(len(body.outcomes))
    outcomes = [(HeldTask(each.task, each.tenant or client.tenant), each.outcome()) for each in body.outcomes]
    response = await TaskLeases(client.router, body.worker).report(outcomes)
    return json_response(
        {"results": [_item(each.task, error) for each, error in zip(body.outcomes, response, strict=True)]}
    )


async def _schedules(_: Request, client: JobsClient) -> Response:
    return json_response({"schedules": [bodies.schedule_to_json(each) for each in await client.schedules()]})


async def _put_schedule(request: Request, client: JobsClient) -> Response:
    body = bodies.read(await _body(request), bodies.ScheduleBody)
    name = request.path_params["name"]
    await client.put_schedule_of(
        name, body.cron, body.job.job(client.tenant), timezone=body.timezone, is_paused=body.is_paused
    )
    return json_response({"name": name})


async def _delete_schedule(request: Request, client: JobsClient) -> Response:
    await client.delete_schedule(request.path_params["name"])
    return Response(status_code=204)


async def _shards(_: Request, client: JobsClient) -> Response:
    return json_response({"shards": [bodies.shard_to_json(place) for place in await client.shards()]})


def _item(id: str, error: ArgosyError | None) -> dict[str, object]:
    return {"id": id} if error is None else {"id": id, "error": bodies.error_to_json(error)}


def _heartbeat_result(id: str, answer: int | ArgosyError) -> dict[str, object]:
    return _item(id, answer) if isinstance(answer, ArgosyError) else {"id": id, "cancelled_at_ms": answer or None}


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() not in _FALSE_WORDS


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e9:
        raise Invalid(f"{name} must be a number of at least 0; got {text!r}")
    return number


def _limit(request: Request) -> int:
    """The client checks the bounds."""
    text = request.query_params.get("limit")
    try:
        return FIND_DEFAULT if text is None else int(text)
    except ValueError:
        raise Invalid(f"limit must be a whole number between 1 and {FIND_MAX}; got {text!r}") from None


def _status(text: str | None) -> JobStatus | None:
    if text is None:
        return None
    try:
        return JobStatus[text.upper()]
    except KeyError:
        known = ", ".join(status.name.lower() for status in JobStatus)
        raise Invalid(f"unknown status {text!r}; use one of {known}") from None


def _pair(text: str | None) -> tuple[str, str] | None:
    """`key:value`; a key may not contain colons."""
    if text is None:
        return None
    key, colon, value = text.partition(":")
    if not (key and colon):
        raise Invalid(f"metadata must be key:value; got {text!r}")
    return key, value
