// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"maps"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// session is the state of the session that a device has with a peer.
type session struct {
	// handshake is the time of the last handshake; zero if there was none.
	handshake time.Time
	// received is the number of bytes that came from the peer.
	received int64
}

// sessionLifetime is how long after its handshake a session can be used: REJECT_AFTER_TIME of the WireGuard
// protocol, section 6.1 of its paper.
const sessionLifetime = 180 * time.Second

// egress is by which device this node sends to a peer, and the move to another device that is under way.
type egress struct {
	// device is the index of the device, and key the peer's key there.
	device int
	key    wgtypes.Key
	// target is the index of the device that the peer is being moved to. It equals device if there is no move.
	target int
	// since is when the move began. received is how many bytes had come from the peer by the target until then.
	since    time.Time
	received int64
}

// egresses has the egress of each peer, by node.
type egresses map[string]egress

// target returns the index of the device by which this node is to send to the peer: the first usable one whose key
// neither node rotates. own is the name of this node. usable reports for each device whether the peer can know this
// node's key. rotating is the device whose key this node rotates; noDevice for none.
//
// If each usable device has a key that is being rotated, the node with the smaller name is the first to finish: the
// target is the device whose key the other node rotates.
func (p *peer) target(own string, usable []bool, rotating int) int {
	fallback, found := 0, false
	for i, s := range p.devices {
		if !usable[i] {
			continue
		}
		if i != rotating && !s.rotating {
			return i
		}
		preferred := p.node < own && i == rotating || p.node > own && s.rotating
		if !found || preferred {
			fallback, found = i, true
		}
	}
	return fallback
}

// update moves peers to their target devices. A peer moves once the target has a session with it, so that no packet
// waits for a handshake. If the peer's key of the current device is no longer announced, it moves at once.
//
// session returns the session that a device has with a key. update returns when the latest unfinished move began;
// zero if no move is unfinished.
func (es egresses) update(
	peers map[string]*peer, target func(*peer) int, session func(int, wgtypes.Key) session, now time.Time,
) (since time.Time) {
	maps.DeleteFunc(es, func(node string, _ egress) bool {
		return peers[node] == nil || len(peers[node].devices) == 0
	})
	for node, p := range peers {
		if len(p.devices) == 0 {
			continue
		}
		to := target(p)
		at := session(to, p.devices[to].key)
		e, ok := es[node]
		if !ok || e.device >= len(p.devices) || p.devices[e.device].key != e.key {
			e = initialEgress(p, to, session, now)
		}
		switch {
		case e.device == to:
			e.target = to
		case e.target != to:
			e.target, e.since, e.received = to, now, at.received
		case at.handshake.After(e.since), at.received > e.received && now.Sub(at.handshake) < sessionLifetime:
			e.device, e.target = to, to
		}
		e.key = p.devices[e.device].key
		es[node] = e
		if e.device != e.target && e.since.After(since) {
			since = e.since
		}
	}
	return since
}

// initialEgress returns the egress of a peer that has none: the target, unless only another device has a live
// session, as after a restart during a move.
func initialEgress(p *peer, target int, session func(int, wgtypes.Key) session, now time.Time) egress {
	device := target
	if at := session(target, p.devices[target].key); now.Sub(at.handshake) >= sessionLifetime {
		for i, s := range p.devices {
			if now.Sub(session(i, s.key).handshake) < sessionLifetime {
				device = i
				break
			}
		}
	}
	return egress{device: device, target: device}
}

// user returns the name of a node with a live session that this node sends to by the device, or that is being moved
// to it; empty if there is none.
func (es egresses) user(
	device int, peers map[string]*peer, session func(int, wgtypes.Key) session, now time.Time,
) string {
	for node, e := range es {
		p := peers[node]
		if p == nil || e.device != device && e.target != device {
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
