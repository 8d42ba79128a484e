// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

var updateGolden = flag.Bool("update", false, "rewrite the files of expected messages")

// goldenState has something of most messages.
func goldenState() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	key := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}
	s.Sets["s:fe"] = dptest.Set{Members: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.0.0.2/32")}}}
	s.Sets["p:http"] = dptest.Set{Type: dataplane.IPSetPorts, Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32"), Protocol: policy.ProtocolTCP, Port: 80},
	}}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
		ID: "r1", Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source:      dataplane.Match{Sets: []dataplane.IPSetID{"s:fe"}},
		Destination: dataplane.Match{PortSets: []dataplane.IPSetID{"p:http"}},
	}}}
	s.Profiles["kns.shop"] = &dataplane.Profile{Egress: []dataplane.Rule{{ID: "r2", Action: policy.Pass}}}
	s.Endpoints[policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web-1"}] = &dataplane.Endpoint{
		Interface: "cali1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Profiles: []string{"kns.shop"},
		Ingress: []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
	}
	dst := netip.MustParsePrefix("10.0.1.0/26")
	s.Tunnels[dataplane.TunnelKey{Node: "n2", IPVersion: 4}] = &dataplane.Tunnel{
		Node: "n2", IPVersion: 4, Address: netip.MustParseAddr("10.0.1.0"), MAC: "66:00:00:00:00:02",
		ParentAddress: netip.MustParseAddr("192.0.2.2"),
	}
	s.Routes[dst] = &dataplane.Route{
		Dst: dst, Type: dataplane.RouteRemoteWorkload, Node: "n2", NodeAddress: netip.MustParseAddr("192.0.2.2"),
		Pool: dataplane.PoolVXLAN,
	}
	s.Nodes["n2"] = &dataplane.Node{Name: "n2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}
	s.Pools["p"] = &dataplane.Pool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16"), Type: dataplane.PoolVXLAN}
	return s
}

// The bytes of messages change only on purpose: drivers depend on them. Each message is its bytes,
// with the length, and its content.
func TestBytesOfMessages(t *testing.T) {
	for _, dialect := range []Dialect{DialectTiers, DialectKinds, DialectKindsV4V6} {
		d, err := New(Config{
			Command: []string{"driver"}, Dialect: dialect, Settings: map[string]string{"InterfacePrefix": "cali"},
		})
		require.NoError(t, err)
		d.state.Apply(dptest.Transition(dptest.NewState(), goldenState()), nil)
		var text strings.Builder
		var number uint64
		d.snapshot(d.state, func(m *felixpb.ToDataplane) {
			m.SequenceNumber = number
			number++
			frame, err := appendFrame(nil, m)
			require.NoError(t, err)
			data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
			require.NoError(t, err)
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, data)) // protojson varies its spaces
			text.WriteString(compact.String() + "\n" + hex.EncodeToString(frame) + "\n\n")
		})
		path := filepath.Join("testdata", dialect.String()+".txt")
		if *updateGolden {
			require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text.String())
	}
}

// A frame that was written is read. A frame that is too long or truncated is an error.
func TestFrames(t *testing.T) {
	m := &felixpb.ToDataplane{Payload: &felixpb.ToDataplane_InSync{InSync: &felixpb.InSync{}}, SequenceNumber: 7}
	frame, err := appendFrame([]byte("before"), m)
	require.NoError(t, err)
	frame = frame[len("before"):]
	require.Equal(t, []byte{4, 0, 0, 0, 0, 0, 0, 0, 0x78, 7, 0x0a, 0}, frame)
	got := &felixpb.ToDataplane{}
	require.NoError(t, readFrame(bytes.NewReader(frame), 4, got))
	require.EqualValues(t, 7, got.SequenceNumber)
	require.ErrorContains(t, readFrame(bytes.NewReader(frame), 3, got), "a message of 4 bytes, at most 3")
	for n := range len(frame) {
		require.Error(t, readFrame(bytes.NewReader(frame[:n]), 4, got))
	}
	_, err = appendFrame(nil, &felixpb.ToDataplane{Payload: &felixpb.ToDataplane_NamespaceUpdate{
		NamespaceUpdate: &felixpb.NamespaceUpdate{Id: &felixpb.NamespaceID{Name: "\xff"}},
	}})
	require.Error(t, err, "a name that is not text")
}
