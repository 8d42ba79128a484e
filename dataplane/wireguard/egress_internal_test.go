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

// Two nodes always choose the same device, whatever they rotate, if each knows what the other one rotates.
func TestBothNodesChooseTheSameDevice(t *testing.T) {
	all := []bool{true, true}
	for a := noDevice; a < 2; a++ {
		for b := noDevice; b < 2; b++ {
			atA := &peer{node: "b", devices: []peerDevice{{rotating: b == 0}, {rotating: b == 1}}}
			atB := &peer{node: "a", devices: []peerDevice{{rotating: a == 0}, {rotating: a == 1}}}
			chosen := atA.target("a", all, a)
			require.Equal(t, chosen, atB.target("b", all, b), "a rotates %d, b rotates %d", a, b)
			switch {
			case a == noDevice && b == noDevice:
				require.Equal(t, 0, chosen)
			case a >= 0 && b >= 0 && a != b:
				require.NotEqual(t, a, chosen, "a comes first by name, so its rotation goes first")
			default:
				require.NotEqual(t, max(a, b), chosen)
			}
		}
	}
	one := &peer{node: "b", devices: []peerDevice{{}}}
	require.Equal(t, 0, one.target("a", all, 0), "there is no other")
	two := &peer{node: "b", devices: []peerDevice{{}, {}}}
	require.Equal(t, 1, two.target("a", []bool{false, true}, noDevice), "the other node does not know the first key")
	require.Equal(t, 0, two.target("a", []bool{false, false}, noDevice))
}

// A peer moves to another device once it answers there.
func TestPeerMovesAfterHandshake(t *testing.T) {
	now := time.Unix(1000, 0)
	sessions := map[wgtypes.Key]session{}
	sessionOf := func(_ int, key wgtypes.Key) session { return sessions[key] }
	to := 0
	peers := map[string]*peer{"b": {node: "b", devices: []peerDevice{{key: testKey(1)}, {key: testKey(2)}}}}
	es := egresses{}
	update := func() bool { return !es.update(peers, func(*peer) int { return to }, sessionOf, now).IsZero() }
	require.False(t, update())
	require.Equal(t, 0, es["b"].device)
	require.False(t, es.desiredPeers(0, peers)[testKey(1)].keepalive)

	to = 1
	require.True(t, update())
	require.Equal(t, 0, es["b"].device)
	require.True(t, es.desiredPeers(1, peers)[testKey(2)].keepalive)
	require.False(t, es.desiredPeers(0, peers)[testKey(1)].keepalive)
	now = now.Add(time.Second)
	require.True(t, update(), "it does not answer")
	sessions[testKey(2)] = session{handshake: now}
	require.False(t, update())
	require.Equal(t, 1, es["b"].device)
	require.False(t, es.desiredPeers(1, peers)[testKey(2)].keepalive)

	// Back: the peer still has a session there. It moves once it sends something by that session.
	now = now.Add(time.Minute)
	sessions[testKey(1)] = session{handshake: now.Add(-10 * time.Second), received: 5}
	to = 0
	require.True(t, update())
	require.True(t, update())
	sessions[testKey(1)] = session{handshake: now.Add(-10 * time.Second), received: 6}
	require.False(t, update())
	require.Equal(t, 0, es["b"].device)

	// A move that is cancelled.
	to = 1
	require.True(t, update())
	to = 0
	require.False(t, update())
	require.Equal(t, 0, es["b"].target)

	// A new key in place of the one in use: the other device is used while that has a session.
	peers["b"].devices[0].key = testKey(3)
	require.True(t, update())
	require.Equal(t, egress{device: 1, key: testKey(2), target: 0, since: now}, es["b"])
	delete(es, "b")
	now = now.Add(sessionLifetime)
	require.False(t, update())
	require.Equal(t, egress{device: 0, key: testKey(3), target: 0}, es["b"])
	delete(peers, "b")
	require.False(t, update())
	require.Empty(t, es)
}
