// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"maps"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// session is what a device knows of a peer.
type session struct {
	// handshake is the time of the last one; zero if there was none.
	handshake time.Time
	// received counts bytes.
	received int64
}

// alive is how long after its handshake a session can be used: REJECT_AFTER_TIME of the WireGuard
// protocol, section 6.1 of its paper.
const alive = 180 * time.Second

// path is by which of its devices this node sends to a peer.
type path struct {
	// via is the index of the device, and key the peer's key there.
	via int
	key wgtypes.Key
	// to is the index of the device that it is moved to; via if it is not moved.
	to int
	// since is when the move began, and received how much the target had received then.
	since    time.Time
	received int64
}

// paths are those of all peers by node.
type paths map[string]path

// target returns the device by which a peer is to be reached: the first whose keys neither side renews and
// both know. If both sides renew, and not the same key, the one whose node comes first by name is served
// first. usable says which of this node's keys the peer can know, renewing which one this node renews (-1
// for none).
func (p *peer) target(own string, usable []bool, renewing int) int {
	fallback, found := 0, false
	for i, s := range p.slots {
		if !usable[i] {
			continue
		}
		if i != renewing && !s.renewing {
			return i
		}
		served := p.node < own && i == renewing || p.node > own && s.renewing
		if !found || served {
			fallback, found = i, true
		}
	}
	return fallback
}

// update moves the paths of peers to their targets. look returns the session of a device with a key. A path
// moves once the target device has a session, so that no packet waits for a handshake. If the key of the
// current device is gone, the path moves at once. It reports whether a move is under way.
func (ps paths) update(
	peers map[string]*peer, target func(*peer) int, look func(int, wgtypes.Key) session, now time.Time,
) (moving bool) {
	maps.DeleteFunc(ps, func(node string, _ path) bool { return peers[node] == nil || len(peers[node].slots) == 0 })
	for node, p := range peers {
		if len(p.slots) == 0 {
			continue
		}
		to := target(p)
		at := look(to, p.slots[to].key)
		old, had := ps[node]
		if !had || old.via >= len(p.slots) || p.slots[old.via].key != old.key {
			old = first(p, to, look, now)
		}
		switch {
		case old.via == to:
			old.to = to
		case old.to != to:
			old.to, old.since, old.received = to, now, at.received
		case at.handshake.After(old.since), at.received > old.received && now.Sub(at.handshake) < alive:
			old.via, old.to = to, to
		}
		old.key = p.slots[old.via].key
		ps[node] = old
		moving = moving || old.via != old.to
	}
	return moving
}

// first returns the path of a peer that has none: by the target, unless only another device has a session,
// as after a restart during a move.
func first(p *peer, to int, look func(int, wgtypes.Key) session, now time.Time) path {
	via := to
	if at := look(to, p.slots[to].key); now.Sub(at.handshake) >= alive {
		for i, s := range p.slots {
			if now.Sub(look(i, s.key).handshake) < alive {
				via = i
				break
			}
		}
	}
	return path{via: via, to: via}
}

// uses returns the name of a node with a live session that this node sends to by the device, or that is moving
// to it. Empty if there is none.
func (ps paths) uses(device int, peers map[string]*peer, look func(int, wgtypes.Key) session, now time.Time) string {
	for node, at := range ps {
		p := peers[node]
		if p == nil || at.via != device && at.to != device {
			continue
		}
		for i, s := range p.slots {
			if now.Sub(look(i, s.key).handshake) < alive {
				return node
			}
		}
	}
	return ""
}
