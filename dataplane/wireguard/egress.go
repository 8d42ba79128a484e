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

// sessionLifetime is how long after its handshake a session can be used: REJECT_AFTER_TIME of the WireGuard
// protocol, section 6.1 of its paper.
const sessionLifetime = 180 * time.Second

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

// target returns the device by which a peer is to be reached: the first whose keys neither side rotates and
// both know. If both sides rotate, and not the same key, the one whose node comes first by name is served
// first. usable says which of this node's keys the peer can know, rotating which one this node rotates (noDevice
// for none).
func (p *peer) target(own string, usable []bool, rotating int) int {
	fallback, found := 0, false
	for i, s := range p.devices {
		if !usable[i] {
			continue
		}
		if i != rotating && !s.rotating {
			return i
		}
		served := p.node < own && i == rotating || p.node > own && s.rotating
		if !found || served {
			fallback, found = i, true
		}
	}
	return fallback
}

// update moves the paths of peers to their targets. session returns the session of a device with a key. A path
// moves once the target device has a session, so that no packet waits for a handshake. If the key of the
// current device is gone, the path moves at once. It returns when the latest of the moves began that are under
// way; zero if there are none.
func (ps paths) update(
	peers map[string]*peer, target func(*peer) int, session func(int, wgtypes.Key) session, now time.Time,
) (since time.Time) {
	maps.DeleteFunc(ps, func(node string, _ path) bool { return peers[node] == nil || len(peers[node].devices) == 0 })
	for node, p := range peers {
		if len(p.devices) == 0 {
			continue
		}
		to := target(p)
		at := session(to, p.devices[to].key)
		old, had := ps[node]
		if !had || old.via >= len(p.devices) || p.devices[old.via].key != old.key {
			old = initialPath(p, to, session, now)
		}
		switch {
		case old.via == to:
			old.to = to
		case old.to != to:
			old.to, old.since, old.received = to, now, at.received
		case at.handshake.After(old.since), at.received > old.received && now.Sub(at.handshake) < sessionLifetime:
			old.via, old.to = to, to
		}
		old.key = p.devices[old.via].key
		ps[node] = old
		if old.via != old.to && old.since.After(since) {
			since = old.since
		}
	}
	return since
}

// initialPath returns the path of a peer that has none: by the target, unless only another device has a session,
// as after a restart during a move.
func initialPath(p *peer, to int, session func(int, wgtypes.Key) session, now time.Time) path {
	via := to
	if at := session(to, p.devices[to].key); now.Sub(at.handshake) >= sessionLifetime {
		for i, s := range p.devices {
			if now.Sub(session(i, s.key).handshake) < sessionLifetime {
				via = i
				break
			}
		}
	}
	return path{via: via, to: via}
}

// uses returns the name of a node with a live session that this node sends to by the device, or that is moving
// to it. Empty if there is none.
func (ps paths) uses(device int, peers map[string]*peer, session func(int, wgtypes.Key) session, now time.Time) string {
	for node, at := range ps {
		p := peers[node]
		if p == nil || at.via != device && at.to != device {
			continue
		}
		for i, s := range p.devices {
			if now.Sub(session(i, s.key).handshake) < sessionLifetime {
				return node
			}
		}
	}
	return ""
}
