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
	// received is the number of bytes that the device has received from the peer.
	received int64
}

// sessionLifetime is how long after its handshake a session can be used: REJECT_AFTER_TIME of the
// WireGuard protocol, section 6.1 of its paper.
const sessionLifetime = 180 * time.Second

// outDevice is the device through which this node sends to a remote node, and an unfinished move to
// another device.
type outDevice struct {
	// index is the index of the device. key is the remote node's key for that device.
	index int
	key   wgtypes.Key
	// target is the index of the device that the node is being moved to. It equals index if there
	// is no move.
	target int
	// movingSince is when the move began. receivedBefore is the number of bytes that the target had
	// received from the node until then.
	movingSince    time.Time
	receivedBefore int64
}

// outDevices has the outDevice of each remote node, by name.
type outDevices map[string]outDevice

// targetDevice returns the index of the device by which this node is to send to the remote node.
// This is the first usable device whose key neither node rotates. If there is none, it is the
// usable device whose key the node with the later name rotates. The other node can then complete
// its rotation first. If there is no such device either, it is the first usable device. If no
// device is usable, it is the first device.
//
// ownName is the name of this node. A device is usable if this node's Node resource has its key.
// rotating is the device whose key this node rotates; noDevice for none.
func (n *remoteNode) targetDevice(ownName string, usable []bool, rotating int) int {
	fallback, found := 0, false
	for i, p := range n.peers {
		if !usable[i] {
			continue
		}
		if i != rotating && !p.rotating {
			return i
		}
		preferred := n.name < ownName && i == rotating || n.name > ownName && p.rotating
		if !found || preferred {
			fallback, found = i, true
		}
	}
	return fallback
}

// update moves remote nodes to their target devices. A node moves once the target has a session
// with it, so that no packet waits for a handshake. If the node's key of the current device is no
// longer announced, it moves at once.
//
// session returns the session that a device has with a key. update returns when the latest
// unfinished move began; zero if no move is unfinished.
func (outs outDevices) update(
	nodes map[string]*remoteNode, target func(*remoteNode) int, session func(int, wgtypes.Key) session, now time.Time,
) (movingSince time.Time) {
	maps.DeleteFunc(outs, func(name string, _ outDevice) bool {
		return nodes[name] == nil || len(nodes[name].peers) == 0
	})
	for name, n := range nodes {
		if len(n.peers) == 0 {
			continue
		}
		to := target(n)
		at := session(to, n.peers[to].key)
		out, ok := outs[name]
		if !ok || out.index >= len(n.peers) || n.peers[out.index].key != out.key {
			out = initialOutDevice(n, to, session, now)
		}
		switch {
		case out.index == to:
			out.target = to
		case out.target != to:
			out.target, out.movingSince, out.receivedBefore = to, now, at.received
		case at.handshake.After(out.movingSince),
			at.received > out.receivedBefore && now.Sub(at.handshake) < sessionLifetime:
			out.index, out.target = to, to
		}
		out.key = n.peers[out.index].key
		outs[name] = out
		if out.index != out.target && out.movingSince.After(movingSince) {
			movingSince = out.movingSince
		}
	}
	return movingSince
}

// initialOutDevice returns the outDevice of a remote node that has none. It is the target, unless
// only another device has a live session, which is so after a restart during a move.
func initialOutDevice(
	n *remoteNode, target int, session func(int, wgtypes.Key) session, now time.Time,
) outDevice {
	index := target
	if at := session(target, n.peers[target].key); now.Sub(at.handshake) >= sessionLifetime {
		for i, p := range n.peers {
			if now.Sub(session(i, p.key).handshake) < sessionLifetime {
				index = i
				break
			}
		}
	}
	return outDevice{index: index, target: index}
}

// nodeUsing returns the name of a remote node that uses the device. It returns an empty name if
// there is none. A remote node uses the device if this node sends to it by the device, or is moving
// it there. In addition, this node must have a live session with the remote node.
func (outs outDevices) nodeUsing(
	device int, nodes map[string]*remoteNode, session func(int, wgtypes.Key) session, now time.Time,
) string {
	for name, out := range outs {
		n := nodes[name]
		if n == nil || out.index != device && out.target != device {
			continue
		}
		for i, p := range n.peers {
			if now.Sub(session(i, p.key).handshake) < sessionLifetime {
				return name
			}
		}
	}
	return ""
}
