import http.client
import json
import subprocess
import sys

import httpx

from turngym.envs.builtin.mcp_tools.demo_http import PATH

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}


def call(url, session, name, **arguments):
    params = {"name": name, "arguments": arguments}
    reply = httpx.post(
        url,
        json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params},
        headers={"Mcp-Session-Id": session},
    )
    return reply.json()["result"]["content"][0]["text"] if reply.status_code == 200 else reply.status_code


def test_each_session_has_a_storeroom_of_its_own(http_storeroom):
    url = http_storeroom.url
    one, other = (httpx.post(url, json=INITIALIZE).headers["Mcp-Session-Id"] for _ in range(2))
    assert call(url, one, "fill", stock={"A": {"lamp": 2}}) == "done"
    assert (call(url, one, "look", shelf="A"), call(url, other, "look", shelf="A")) == ("lamp: 2", "nothing")
    assert httpx.delete(url, headers={"Mcp-Session-Id": one}).status_code == 200
    assert call(url, one, "look", shelf="A") == 404
    assert httpx.delete(url, headers={"Mcp-Session-Id": one}).status_code == 404
    assert httpx.delete(url, headers={"Mcp-Session-Id": other}).status_code == 200


def test_what_is_refused(http_storeroom):
    url = http_storeroom.url
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert httpx.post(url, json=ping).status_code == 400  # no session
    assert httpx.post(url.replace(PATH, "/other"), json=ping).status_code == 404
    assert httpx.post(url, json=INITIALIZE, headers={"Origin": "https://example.invalid"}).status_code == 403
    assert httpx.get(url).status_code == 405
    connection = http.client.HTTPConnection("127.0.0.1", http_storeroom.server_port)
    connection.putrequest("POST", PATH)
    connection.putheader("Content-Length", "99999999")
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_notifications_are_only_taken(http_storeroom):
    session = httpx.post(http_storeroom.url, json=INITIALIZE).headers["Mcp-Session-Id"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    reply = httpx.post(http_storeroom.url, json=note, headers={"Mcp-Session-Id": session})
    assert (reply.status_code, reply.content) == (202, b"")
    httpx.delete(http_storeroom.url, headers={"Mcp-Session-Id": session})


def test_it_runs_as_a_module_and_says_where():
    module = [sys.executable, "-m", "turngym.envs.builtin.mcp_tools.demo_server", "--http", "0"]
    with subprocess.Popen(module, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        assert json.loads(httpx.post(url, json=INITIALIZE).text)["id"] == 1
        process.kill()
