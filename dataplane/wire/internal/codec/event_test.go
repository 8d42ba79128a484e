// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

// filled returns an event of each type with all fields set.
func filled() []dataplane.Event {
	events := []dataplane.Event{
		&dataplane.IPSetUpdate{}, &dataplane.IPSetDelta{}, &dataplane.PolicyUpdate{}, &dataplane.ProfileUpdate{},
		&dataplane.EndpointUpdate{}, &dataplane.HostEndpointUpdate{}, &dataplane.EndpointRemove{},
		&dataplane.HostEndpointRemove{}, &dataplane.ProfileRemove{}, &dataplane.PolicyRemove{},
		&dataplane.IPSetRemove{}, &dataplane.RouteRemove{}, &dataplane.TunnelRemove{}, &dataplane.TunnelUpdate{},
		&dataplane.RouteUpdate{}, &dataplane.NodeUpdate{}, &dataplane.NodeRemove{}, &dataplane.PoolUpdate{},
		&dataplane.PoolRemove{}, &dataplane.ServiceUpdate{}, &dataplane.ServiceRemove{},
		&dataplane.NamespaceUpdate{}, &dataplane.NamespaceRemove{}, &dataplane.ServiceAccountUpdate{},
		&dataplane.ServiceAccountRemove{}, &dataplane.InSync{},
	}
	member := dataplane.Member{
		Prefix: netip.MustParsePrefix("10.1.0.1/32"), Protocol: policy.ProtocolTCP, Port: 80,
	}
	for _, e := range events {
		fieldwalk.Fill(reflect.ValueOf(e).Elem(), policy.PortRange(80, 90), policy.Pass, member,
			dataplane.IPSetPorts, dataplane.PoolIPIP, dataplane.EncapIPIP)
		switch e := e.(type) {
		case *dataplane.PolicyUpdate:
			setVersions(e.Policy.Ingress, e.Policy.Egress)
		case *dataplane.ProfileUpdate:
			setVersions(e.Profile.Ingress, e.Profile.Egress)
		case *dataplane.TunnelUpdate:
			e.Tunnel.IPVersion = 6
		case *dataplane.TunnelRemove:
			e.Key.IPVersion = 6
		case *dataplane.NodeUpdate: // which have host bits
			e.Node.Addresses[0] = netip.MustParsePrefix("192.0.2.5/24")
			e.Node.Addresses[1] = netip.MustParsePrefix("2001:db8::5/64")
		}
	}
	return events
}

// setVersions gives rules an IP version that exists.
func setVersions(lists ...[]dataplane.Rule) {
	for _, rules := range lists {
		for i := range rules {
			rules[i].IPVersion = 6
		}
	}
}

// tryRoundTrip encodes an event, sends it through bytes, and decodes it.
func tryRoundTrip(t testing.TB, e dataplane.Event) (dataplane.Event, error) {
	t.Helper()
	m, err := codec.Encode(e)
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	back := &wirepb.Event{}
	require.NoError(t, proto.Unmarshal(data, back))
	return codec.Decode(back)
}

func roundTrip(t testing.TB, e dataplane.Event) dataplane.Event {
	t.Helper()
	back, err := tryRoundTrip(t, e)
	require.NoError(t, err)
	return back
}

// zeroFields returns the paths of the zero parts of a value.
func zeroFields(path string, v reflect.Value) (paths []string) {
	switch v.Interface().(type) {
	case netip.Addr, netip.Prefix:
		if v.IsZero() {
			paths = append(paths, path)
		}
		return paths
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return zeroFields(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			paths = append(paths, zeroFields(path+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
		return paths
	case reflect.Slice:
		for i := range v.Len() {
			paths = append(paths, zeroFields(path+"["+strconv.Itoa(i)+"]", v.Index(i))...)
		}
		if v.Len() > 0 {
			return paths
		}
	}
	if v.IsZero() || v.Kind() == reflect.Slice {
		paths = append(paths, path)
	}
	return paths
}

// TestSampleIsComplete: the events of filled have all types that the schema has, and no field is
// zero. Only the ports of rules have no names.
func TestSampleIsComplete(t *testing.T) {
	contents := (&wirepb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("event").Fields()
	var want, got []protoreflect.Name
	for i := range contents.Len() {
		want = append(want, contents.Get(i).Name())
	}
	for _, e := range filled() {
		for _, path := range zeroFields("", reflect.ValueOf(e)) {
			require.Regexp(t, `(Ports)\[\d\]\.Name$`, path, "%T", e)
		}
		m, err := codec.Encode(e)
		require.NoError(t, err)
		got = append(got, m.ProtoReflect().WhichOneof(contents.Get(0).ContainingOneof()).Name())
	}
	require.ElementsMatch(t, want, got)
	require.Len(t, got, 26)
}

func TestEveryFieldArrives(t *testing.T) {
	for _, e := range filled() {
		require.Equal(t, e, roundTrip(t, e))
	}
}

// TestEveryChangeArrives: a change of one part arrives and changes nothing else, or is refused. So
// no two fields of a type are confused, which TestEveryFieldArrives cannot detect.
func TestEveryChangeArrives(t *testing.T) {
	arrived, refused := 0, 0
	for n, e := range filled() {
		for i := range fieldwalk.Changes(reflect.ValueOf(e).Elem()) {
			changed := filled()[n]
			change := fieldwalk.Changes(reflect.ValueOf(changed).Elem())[i]
			change.Do()
			back, err := tryRoundTrip(t, changed)
			if err != nil {
				refused++
				continue
			}
			require.Equal(t, changed, back, "%T%s", changed, change.Path)
			arrived++
		}
	}
	require.Greater(t, arrived, 300)
	require.Less(t, refused, arrived/3, "of %d", arrived)
}

func TestRandomWorldsArrive(t *testing.T) {
	for seed := range uint64(30) {
		gen := worlds.New(worlds.Config{Seed: seed})
		graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
		require.NoError(t, err)
		graph.InSync()
		for range 5 {
			for range 30 {
				graph.Update(gen.Update())
			}
			for _, e := range graph.Flush().Events {
				back := roundTrip(t, e)
				require.IsType(t, e, back, "seed %d", seed)
				require.Equal(t, e.String(), back.String(), "seed %d", seed)
				require.Equal(t, encoded(t, e), encoded(t, back), "seed %d: %s", seed, e)
			}
		}
	}
}

// encoded returns the bytes of an event. They include values that String omits, such as the IDs of
// rules.
func encoded(t *testing.T, e dataplane.Event) []byte {
	m, err := codec.Encode(e)
	require.NoError(t, err)
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return data
}

func TestEmptyListsBecomeNil(t *testing.T) {
	empty := &dataplane.PolicyUpdate{
		Key: policy.Key{Kind: policy.KindPolicy, Name: "p"},
		Policy: &dataplane.Policy{Egress: []dataplane.Rule{}, Ingress: []dataplane.Rule{{
			Action:      policy.Allow,
			HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{}},
			Source:      dataplane.Match{Nets: []netip.Prefix{}, Sets: []dataplane.IPSetID{}, Ports: []policy.Port{}},
		}}},
	}
	m, err := codec.Encode(empty)
	require.NoError(t, err)
	require.Nil(t, m.GetPolicyUpdate().GetIngress()[0].GetSource(), "a side without limits")
	require.Equal(t, &dataplane.PolicyUpdate{
		Key: empty.Key, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{{Action: policy.Allow}}},
	}, roundTrip(t, empty))

	node := &dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n", Addresses: []netip.Prefix{}}}
	require.Equal(t, &dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n"}}, roundTrip(t, node))
	set := &dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{}}
	require.Equal(t, &dataplane.IPSetUpdate{ID: "s:a"}, roundTrip(t, set))
}

// TestMembersKeepTheirOrder: members in the order of Member.Compare keep it in the message, with
// both families in a set.
func TestMembersKeepTheirOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for typ := range dataplane.IPSetType(2) {
		set := &dataplane.IPSetUpdate{ID: "s:a", Type: typ}
		for range 1000 {
			set.Members = append(set.Members, randomMember(rng, typ))
		}
		slices.SortFunc(set.Members, dataplane.Member.Compare)
		set.Members = slices.Compact(set.Members)
		require.Equal(t, set, roundTrip(t, set))
		delta := &dataplane.IPSetDelta{ID: "s:a", Added: set.Members[:100], Removed: set.Members[100:]}
		require.Equal(t, delta, roundTrip(t, delta))
	}
}

func randomMember(rng *rand.Rand, typ dataplane.IPSetType) dataplane.Member {
	a := netip.AddrFrom4([4]byte{10, byte(rng.IntN(4)), 0, byte(rng.IntN(256))})
	if rng.IntN(2) == 0 {
		a = netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(rng.IntN(4)), 15: byte(rng.IntN(256))})
	}
	m := dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
	if typ == dataplane.IPSetPorts {
		m.Protocol, m.Port = policy.Protocol(1+rng.IntN(255)), uint16(1+rng.IntN(65535))
	} else {
		m.Prefix = netip.PrefixFrom(a, rng.IntN(a.BitLen()+1)).Masked()
	}
	return m
}

// TestRecords compares the bytes of members with those that the schema defines.
func TestRecords(t *testing.T) {
	member := func(prefix string, protocol policy.Protocol, port uint16) dataplane.Member {
		return dataplane.Member{Prefix: netip.MustParsePrefix(prefix), Protocol: protocol, Port: port}
	}
	m, err := codec.Encode(&dataplane.IPSetDelta{
		ID:      "s:a",
		Added:   []dataplane.Member{member("10.0.0.0/8", 0, 0), member("10.0.0.1/32", 0, 0), member("fd00::/8", 0, 0)},
		Removed: []dataplane.Member{member("10.0.0.1/32", 6, 80), member("fd00::1/128", 132, 65535)},
	})
	require.NoError(t, err)
	added, removed := m.GetIpSetDelta().GetAdded(), m.GetIpSetDelta().GetRemoved()
	require.Equal(t, []byte{10, 0, 0, 0, 8, 10, 0, 0, 1, 32}, added.GetIpv4Prefixes())
	require.Equal(t, []byte{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}, added.GetIpv6Prefixes())
	require.Equal(t, []byte{10, 0, 0, 1, 6, 0, 80}, removed.GetIpv4Ports())
	require.Equal(t, []byte{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 132, 255, 255}, removed.GetIpv6Ports())
	require.Equal(t, cap(added.GetIpv6Prefixes()), len(added.GetIpv6Prefixes()))
}

// TestMembersAreNotAllocated: the number of allocations does not depend on the number of members.
func TestMembersAreNotAllocated(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	allocs := func(members int) (encode, decode float64) {
		set := &dataplane.IPSetUpdate{ID: "s:a"}
		for range members {
			set.Members = append(set.Members, randomMember(rng, set.Type))
		}
		m, err := codec.Encode(set)
		require.NoError(t, err)
		return testing.AllocsPerRun(10, func() { _, _ = codec.Encode(set) }),
			testing.AllocsPerRun(10, func() { _, _ = codec.Decode(m) })
	}
	fewEncode, fewDecode := allocs(100)
	manyEncode, manyDecode := allocs(10_000)
	require.Equal(t, fewEncode, manyEncode)
	require.Equal(t, fewDecode, manyDecode)
}

// TestEnumsHaveTheSameNames: the enums of the schema have the values of the Go types, in the same
// order.
func TestEnumsHaveTheSameNames(t *testing.T) {
	lower := func(name string, prefix string) string {
		return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", "-")
	}
	for n := range int32(len(wirepb.RouteType_name) - 1) {
		require.Equal(t, dataplane.RouteType(n).String(), lower(wirepb.RouteType_name[n+1], "ROUTE_TYPE_"))
	}
	for n := range int32(len(wirepb.IPSetType_name) - 1) {
		require.Equal(t, dataplane.IPSetType(n).String(), lower(wirepb.IPSetType_name[n+1], "IP_SET_TYPE_"))
	}
	for n := range int32(len(wirepb.Encapsulation_name) - 1) {
		require.Equal(t, dataplane.Encapsulation(n).String(), lower(wirepb.Encapsulation_name[n+1], "ENCAPSULATION_"))
	}
	for n := int32(1); n < int32(len(wirepb.PoolType_name)); n++ { // 0 means no pool in both
		require.Equal(t, dataplane.PoolType(n).String(), lower(wirepb.PoolType_name[n], "POOL_TYPE_"))
	}
	require.False(t, dataplane.PoolType(len(wirepb.PoolType_name)).Valid())
	for _, a := range []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log} {
		m, err := codec.Encode(&dataplane.ProfileUpdate{
			Name: "p", Profile: &dataplane.Profile{Ingress: []dataplane.Rule{{Action: a}}},
		})
		require.NoError(t, err)
		name := m.GetProfileUpdate().GetIngress()[0].GetAction().String()
		require.Equal(t, strings.ToLower(string(a)), lower(name, "ACTION_"))
	}
}

// FuzzDecode: no bytes make Decode panic, and an event that it returns is unchanged by another
// round trip.
func FuzzDecode(f *testing.F) {
	nets := &dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("fd00::1/128")},
	}}
	for _, e := range append(filled(), nets) {
		m, err := codec.Encode(e)
		require.NoError(f, err)
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &wirepb.Event{}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		if e, err := codec.Decode(m); err == nil {
			require.Equal(t, e, roundTrip(t, e))
		}
	})
}
