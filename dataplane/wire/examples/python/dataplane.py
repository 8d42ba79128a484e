#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dataplane in Python: it keeps what a server sends and judges packets by it.

    dataplane.py SOCKET

It reads commands from standard input, one a line, and answers each on standard output with one line of JSON:

    policy                          all objects, by kind
    {"source": "10.0.0.1", ...}     judge a packet: see judge

It needs the standard library only. It reads the schema from wire.proto, so that no code is generated. See docs/wire.md.
"""

import copy
import ipaddress
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import traceback

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../proto/wayleave/wire/v1/wire.proto")
WITH_PORTS = (6, 17, 132)  # TCP, UDP, SCTP


class Schema:
    """The messages and enums of a .proto file, and the encoding of protobuf."""

    def __init__(self, text):
        text = re.sub(r"//.*", "", text)
        self.messages = {"map": {1: ("key", "string", False), 2: ("value", "string", False)}}
        self.enums, open_blocks = {}, []
        block = r"(message|enum|oneof)\s+(\w+)\s*\{|(\})"
        line = r"(repeated\s+|optional\s+)?(map<.*?>|[\w.]+)?\s+(\w+)\s*=\s*(\d+)\s*;"
        for block, name, end, repeated, kind, field, number in re.findall(block + "|" + line, text):
            if block:
                open_blocks.append((block, name))
                {"message": self.messages, "enum": self.enums}.get(block, {})[name] = {}
            elif end:
                open_blocks.pop()
            elif open_blocks and open_blocks[-1][0] == "enum":
                self.enums[open_blocks[-1][1]][int(number)] = field
            elif open_blocks:
                name = next(n for b, n in reversed(open_blocks) if b == "message")
                self.messages[name][int(number)] = (field, kind, (repeated or "").strip() == "repeated")

    def decode(self, message, data):
        """Returns the fields that are set, by name. Absent lists are left out."""
        fields, at = {}, 0
        while at < len(data):
            key, at = varint(data, at)
            if key & 7 == 0:
                value, at = varint(data, at)
            elif key & 7 == 2:
                size, at = varint(data, at)
                value, at = data[at : at + size], at + size
            else:
                raise ValueError(f"{message}: wire type {key & 7}")
            name, kind, repeated = self.messages[message][key >> 3]  # an unknown field, of a newer version, is an error
            if kind.startswith("map<"):
                entry = self.decode("map", value)
                value = {**fields.get(name, {}), entry.get("key", ""): entry.get("value", "")}
            elif kind in self.messages:
                value = self.decode(kind, value)
            elif kind in self.enums:
                value = self.enums[kind].get(value, value)
            elif kind == "string":
                value = value.decode()
            fields[name] = fields.get(name, []) + [value] if repeated else value
        return fields

    def encode(self, message, fields):
        out, numbers = b"", {name: (number, kind) for number, (name, kind, _) in self.messages[message].items()}
        for name, value in fields.items():
            number, kind = numbers[name]
            if isinstance(value, int):
                out += to_varint(number << 3) + to_varint(value)
                continue
            value = self.encode(kind, value) if isinstance(value, dict) else value.encode()
            out += to_varint(number << 3 | 2) + to_varint(len(value)) + value
        return out


def varint(data, at):
    value, shift = data[at] & 0x7F, 7
    while data[at] > 0x7F:
        at += 1
        value, shift = value | (data[at] & 0x7F) << shift, shift + 7
    return value, at + 1


def to_varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(value):
    return json.dumps(value, sort_keys=True, default=bytes.hex)


def network(prefix):
    return ipaddress.ip_network((prefix["address"], prefix.get("length", 0)), strict=False)


def members(m):
    """Returns the members of a set, as (network, protocol, port)."""
    found = set()
    for field, size, ports in (
        ("ipv4_prefixes", 4, False), ("ipv6_prefixes", 16, False), ("ipv4_ports", 4, True), ("ipv6_ports", 16, True)
    ):
        data, record = m.get(field, b""), size + (3 if ports else 1)
        for i in range(0, len(data), record):
            address, rest = data[i : i + size], data[i + size : i + record]
            length, protocol, port = (size * 8, rest[0], rest[1] << 8 | rest[2]) if ports else (rest[0], 0, 0)
            found.add((ipaddress.ip_network((address, length)), protocol, port))
    return found


class State:
    """The objects by kind and identity, and the members of sets."""

    def __init__(self):
        self.objects, self.sets, self.in_sync = {}, {}, False

    def apply(self, event):
        what, content = event.popitem()
        kind, _, change = what.rpartition("_")
        if what == "in_sync":
            self.in_sync = True
        elif what == "ip_set_update":
            self.sets[content["id"]] = members(content.get("members", {}))
        elif what == "ip_set_delta":
            self.sets[content["id"]] -= members(content.get("removed", {}))
            self.sets[content["id"]] |= members(content.get("added", {}))
        elif what == "ip_set_remove":
            self.sets.pop(content, None)
        elif change == "update":
            key = content.get("key") or content.get("destination") or content["name"]
            self.objects.setdefault(kind, {})[text(key)] = content
        else:
            self.objects.setdefault(kind, {}).pop(text(content), None)

    def objects_by_kind(self):
        everything = {**self.objects, "ip_set": {i: sorted(map(str, found)) for i, found in self.sets.items()}}
        return {kind: objects for kind, objects in everything.items() if objects}

    def allows(self, packet):
        """packet: source, destination, protocol, source_port, destination_port, icmp_type, icmp_code and dscp; from and
        to are the keys of the local endpoints whose interfaces it takes, if any."""
        p = packet | {side: ipaddress.ip_address(packet[side]) for side in ("source", "destination")}
        ends = [(text(p[end]), direction) for end, direction in (("from", "egress"), ("to", "ingress")) if end in p]
        return all(self.endpoint_allows(p, self.objects["endpoint"].get(key), direction) for key, direction in ends)

    def endpoint_allows(self, p, endpoint, direction):
        if endpoint is None or endpoint.get("down"):
            return False
        for tier in endpoint.get(direction, []):
            action = "ACTION_PASS"
            for name in tier.get("policies", []):
                policy = self.objects["policy"][text(name)]
                if not policy.get("staged"):
                    action = self.first(p, policy.get(direction, []))
                    if action:
                        break
                    action = tier["default_action"]
            if action != "ACTION_PASS":
                return action == "ACTION_ALLOW"
        for name in endpoint.get("profiles", []):
            action = self.first(p, self.objects["profile"][text(name)].get(direction, []))
            if action:
                return action == "ACTION_ALLOW"
        return False

    def first(self, p, rules):
        """The action of the first rule that matches and decides, or None."""
        return next((r["action"] for r in rules if r["action"] != "ACTION_LOG" and self.matches(p, r)), None)

    def matches(self, p, r):
        version, protocol = p["source"].version, p["protocol"]
        wrong_family = {1: 6, 58: 4}  # ICMP is IPv4, ICMPv6 is IPv6
        if r.get("ip_version", version) != version or r.get("protocol", protocol) != protocol:
            return False
        if "protocol" in r and wrong_family.get(protocol) == version or r.get("not_protocol") == protocol:
            return False

        def icmp(i):
            same = i.get("type", 0) == p["icmp_type"] and i.get("code", p["icmp_code"]) == p["icmp_code"]
            return same and wrong_family.get(protocol, version) != version

        if "icmp" in r and not icmp(r["icmp"]) or "not_icmp" in r and icmp(r["not_icmp"]):
            return False
        if "dscp" in r and p["dscp"] not in r["dscp"] or p["dscp"] in r.get("not_dscp", b""):
            return False
        return all(self.side_matches(p, p[s], p[f"{s}_port"], r.get(s, {})) for s in ("source", "destination"))

    def side_matches(self, p, address, port, m):
        def in_nets(prefixes):
            return any(n.version == address.version and address in n for n in map(network, prefixes))

        def in_set(name):
            return any(n.version == address.version and address in n for n, _, _ in self.sets[name])

        def on_port(ranges, sets):
            triple = (ipaddress.ip_network(address), p["protocol"], port)
            return p["protocol"] in WITH_PORTS and (
                any(r["first"] <= port <= r["last"] for r in ranges) or any(triple in self.sets[s] for s in sets)
            )

        return (
            ("nets" not in m or in_nets(m["nets"]))
            and not in_nets(m.get("not_nets", []))
            and all(map(in_set, m.get("sets", [])))
            and not any(map(in_set, m.get("not_sets", [])))
            and ("ports" not in m and "port_sets" not in m or on_port(m.get("ports", []), m.get("port_sets", [])))
            and not on_port(m.get("not_ports", []), m.get("not_port_sets", []))
        )


class Client:
    def __init__(self, path):
        with open(SCHEMA, encoding="utf-8") as file:
            self.schema = Schema(file.read())
        self.path = path
        self.received = State()  # what the server has sent
        self.state = State()  # the enforced state: the last complete one

    def send(self, message, **fields):
        data = self.schema.encode("ClientMessage", {message: fields})
        self.conn.sendall(struct.pack(">I", len(data)) + data)

    def receive(self):
        header = self.stream.read(4)
        if len(header) < 4:
            raise ConnectionError("the server has gone")
        body = self.stream.read(*struct.unpack(">I", header))
        return self.schema.decode("ServerMessage", body).popitem()

    def run(self):
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as self.conn:
                    self.conn.connect(self.path)
                    self.stream = self.conn.makefile("rb")
                    self.serve()
            except OSError:  # policy stays as it is, and the server may be restarting
                time.sleep(0.1)
            except Exception:  # a new connection would fail, too
                traceback.print_exc()
                os._exit(1)

    def serve(self):
        self.send("hello", version=1, name="python")
        if error := self.receive()[1].get("error"):
            raise ValueError(error)
        following = None  # the state after the batch, of which parts are missing
        while True:
            message, m = self.receive()
            if message == "ping":
                self.send("pong", number=m["number"])
            elif message == "plan":
                if not m.get("more"):
                    self.send("plan_result", request=m["request"], error="this dataplane has no plans")
            elif message == "batch":
                following = following or (State() if m.get("snapshot") else copy.deepcopy(self.received))
                for event in m.get("events", []):
                    following.apply(event)
                if not m.get("more"):
                    self.received, following = following, None
                    if self.received.in_sync:
                        self.state = self.received  # one assignment: a packet sees all of a batch
                    self.send("ack", request=m["request"])
            else:
                if message == "teardown":
                    self.received = self.state = State()
                self.send("ack", request=m["request"])


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    client = Client(sys.argv[1])
    threading.Thread(target=client.run, daemon=True).start()
    for line in sys.stdin:
        state = client.state
        answer = state.objects_by_kind() if line.strip() == "policy" else state.allows(json.loads(line))
        print(text(answer), flush=True)


if __name__ == "__main__":
    main()
