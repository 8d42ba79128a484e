// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

func testKey(n byte) (k wgtypes.Key) {
	k[0] = n
	return k
}

// Two nodes always choose the same device, whatever keys they rotate, if each has the other's
// announcement.
func TestBothNodesChooseTheSameDevice(t *testing.T) {
	all := []bool{true, true}
	for a := noDevice; a < 2; a++ {
		for b := noDevice; b < 2; b++ {
			atA := &remoteNode{name: "b", peers: []announcedPeer{{rotating: b == 0}, {rotating: b == 1}}}
			atB := &remoteNode{name: "a", peers: []announcedPeer{{rotating: a == 0}, {rotating: a == 1}}}
			chosen := atA.targetDevice("a", all, a)
			require.Equal(t, chosen, atB.targetDevice("b", all, b), "a rotates %d, b rotates %d", a, b)
			switch {
			case a == noDevice && b == noDevice:
				require.Equal(t, 0, chosen)
			case a >= 0 && b >= 0 && a != b:
				require.NotEqual(t, a, chosen, "the name of a sorts first, so a completes its rotation first")
			default:
				require.NotEqual(t, max(a, b), chosen)
			}
		}
	}
	one := &remoteNode{name: "b", peers: []announcedPeer{{}}}
	require.Equal(t, 0, one.targetDevice("a", all, 0), "the only device")
	two := &remoteNode{name: "b", peers: []announcedPeer{{}, {}}}
	require.Equal(t, 1, two.targetDevice("a", []bool{false, true}, noDevice),
		"the remote node does not have the first key")
	require.Equal(t, 0, two.targetDevice("a", []bool{false, false}, noDevice))
}

// Packets to a node move to another device once the node answers there.
func TestNodeMovesAfterHandshake(t *testing.T) {
	now := time.Unix(1000, 0)
	sessions := map[wgtypes.Key]session{}
	sessionOf := func(_ int, key wgtypes.Key) session { return sessions[key] }
	to := 0
	nodes := map[string]*remoteNode{"b": {name: "b", peers: []announcedPeer{{key: testKey(1)}, {key: testKey(2)}}}}
	outs := outDevices{}
	update := func() bool {
		return !outs.update(nodes, func(*remoteNode) int { return to }, sessionOf, now).IsZero()
	}
	require.False(t, update())
	require.Equal(t, 0, outs["b"].index)
	require.False(t, outs.desiredPeers(0, nodes)[testKey(1)].keepalive)

	to = 1
	require.True(t, update())
	require.Equal(t, 0, outs["b"].index)
	require.True(t, outs.desiredPeers(1, nodes)[testKey(2)].keepalive)
	require.False(t, outs.desiredPeers(0, nodes)[testKey(1)].keepalive)
	now = now.Add(time.Second)
	require.True(t, update(), "it does not answer")
	sessions[testKey(2)] = session{handshake: now}
	require.False(t, update())
	require.Equal(t, 1, outs["b"].index)
	require.False(t, outs.desiredPeers(1, nodes)[testKey(2)].keepalive)

	// Back to the first device, where the node still has a session. The move is made once the node
	// sends a packet in that session.
	now = now.Add(time.Minute)
	sessions[testKey(1)] = session{handshake: now.Add(-10 * time.Second), received: 5}
	to = 0
	require.True(t, update())
	require.True(t, update())
	sessions[testKey(1)] = session{handshake: now.Add(-10 * time.Second), received: 6}
	require.False(t, update())
	require.Equal(t, 0, outs["b"].index)

	// A cancelled move.
	to = 1
	require.True(t, update())
	to = 0
	require.False(t, update())
	require.Equal(t, 0, outs["b"].target)

	// A new key replaces the one in use: the other device is used while it has a session.
	nodes["b"].peers[0].key = testKey(3)
	require.True(t, update())
	require.Equal(t, outDevice{index: 1, key: testKey(2), target: 0, movingSince: now}, outs["b"])
	delete(outs, "b")
	now = now.Add(sessionLifetime)
	require.False(t, update())
	require.Equal(t, outDevice{index: 0, key: testKey(3), target: 0}, outs["b"])
	delete(nodes, "b")
	require.False(t, update())
	require.Empty(t, outs)
}
