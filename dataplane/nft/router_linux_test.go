// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/policy"
)

// The rig of the benchmarks passes only packets that its policy allows, because of the last policy.
func TestRouter(t *testing.T) {
	for _, f := range forms() {
		for name, w := range map[string]judged{
			"in": {}, "out": {egress: true}, "local": {local: true},
			"forwarded": {host: forwarded}, "untracked": {host: untracked}, "pre-DNAT": {host: preDNAT},
		} {
			t.Run(fmt.Sprintf("form=%s/%s", f.name, name), func(t *testing.T) {
				w.policies = 30
				r, graph, d := w.program(t, f)
				pin(t)
				all := rigFlows(500)
				r.passes(t, all...)

				r.resetConntrack(t)
				r.refuses(t, w.foreign()...)
				last := w.policy(w.policies - 1)
				graph.Update(policy.Update{Key: last.Key()})
				require.NoError(t, d.Apply(t.Context(), graph.Flush()))
				r.resetConntrack(t)
				r.refuses(t, all...)
			})
		}
	}
}

// Without policy, the rig passes all packets. These routers are the baselines of the benchmarks.
func TestRouterWithoutPolicy(t *testing.T) {
	for _, b := range baselines() {
		t.Run(b.name, func(t *testing.T) {
			r := newRig(t, "eth1", "way1")
			load(t, r.node, b.table)
			pin(t)
			r.passes(t, append(rigFlows(500), judged{}.foreign()...)...)
		})
	}
}

// baseline is a router without policy.
type baseline struct{ name, table string }

func baselines() []baseline {
	return []baseline{
		{"none", ""},
		{
			"conntrack",
			"table inet conntrack { chain forward { type filter hook forward priority -10; ct state new accept; }; }",
		},
	}
}

// foreign returns flows that no policy allows: to another port, by another protocol, from or to
// another address.
func (w judged) foreign() []frame {
	f := rigFlows(1)[0]
	port, proto, peer := f, f, f
	port.dport++
	proto.proto = policy.ProtocolSCTP
	proto.chunk, proto.tag = sctpInit, 0
	if peer.src = netip.MustParseAddr("10.1.0.200"); w.egress {
		peer.src, peer.dst = f.src, netip.MustParseAddr("10.2.0.200")
	}
	return []frame{port, proto, peer}
}

// passes requires that all packets and one of an established flow arrive, and that connections can
// be opened.
func (r *rig) passes(t *testing.T, packets ...frame) {
	t.Helper()
	once := slices.Repeat(packets[:1], 100)
	r.volley(t, r.frames(r.client, packets), len(packets))
	r.establish(t, r.frames(r.client, once), once[0].dst)
	r.volley(t, r.frames(r.client, once), len(once))
	r.resetConntrack(t)
	r.volley(t, r.datagrams(packets), len(packets))
	r.establish(t, r.datagrams(once), rigServer())
	r.volley(t, r.datagrams(once), len(once))
	r.connects(t, 10)
}

// refuses requires that none of the packets arrives. The kernel handles packets in order: once the
// marker after them has arrived, they were dropped.
func (r *rig) refuses(t *testing.T, packets ...frame) {
	t.Helper()
	marker := rigFlows(1)[0]
	marker.dport, marker.id = rigMarker, firstID
	packets = append(packets, marker)
	var fd int
	require.NoError(t, r.server.NS.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_IP)))
		return err
	}))
	defer func() { require.NoError(t, unix.Close(fd)) }()
	limit := unix.NsecToTimeval(waitTimeout.Nanoseconds())
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	require.NoError(t, r.frames(r.client, packets).send(len(packets)))
	buf := make([]byte, 4096)
	size, _, err := unix.Recvfrom(fd, buf, 0)
	require.NoError(t, err, "the marker arrives")
	require.Equal(t, uint64(firstID), idOf(buf[:size]), "the marker arrives first")
}
