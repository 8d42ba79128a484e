// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ dataplane.Dataplane = (*nft.Dataplane)(nil)
	_ dataplane.Planner   = (*nft.Dataplane)(nil)
)

// open returns a dataplane for a namespace.
func open(t testing.TB, ns *netns.NS, cfg render.Config) *nft.Dataplane {
	t.Helper()
	return openWith(t, ns, nft.Config{Renderer: cfg})
}

// openWith is open with other settings.
func openWith(t testing.TB, ns *netns.NS, cfg nft.Config) *nft.Dataplane {
	t.Helper()
	return openExactly(t, ns, onFastPath(cfg))
}

// openExactly is openWith, but the tag flowtable does not enable the fast path.
func openExactly(t testing.TB, ns *netns.NS, cfg nft.Config) *nft.Dataplane {
	t.Helper()
	cfg.NetNS = ns.FD()
	d, err := nft.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// allowed is a state with one endpoint to which policy allows everything.
func allowed() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "in", Action: policy.Allow}},
		Egress:  []dataplane.Rule{{ID: "out", Action: policy.Allow}},
	}
	s.Endpoints[endpointKey("way1")] = &dataplane.Endpoint{
		Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.99.0.1")}, Profiles: []string{"all"},
	}
	return s
}

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "test", Name: name}
}

func TestConformance(t *testing.T) { nfttest.EachFormInParallel(t, testConformance) }

// The kit damages only the shared table: other processes cannot change a table with an owner.
func testConformance(t *testing.T, classes render.ClassesConfig) {
	t.Run("owned", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Harness {
			return harness(nstest.New(t), nft.Config{Renderer: render.Config{Classes: classes}})
		})
	})
	t.Run("shared", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Harness {
			ns := nstest.New(t)
			h := harness(ns, nft.Config{Renderer: render.Config{Classes: classes}, Shared: true})
			h.Judge = nil // the tables are the same
			h.Damage = func(t *testing.T) { load(t, ns, "flush table inet wayleave") }
			return h
		})
	})
}

// harness opens one dataplane after the other for a namespace.
func harness(ns *netns.NS, cfg nft.Config) conformance.Harness {
	var last *simulated
	return conformance.Harness{
		Open: func(t *testing.T) dataplane.Dataplane {
			if last != nil {
				require.NoError(t, last.Close())
			}
			last = newSimulated(openWith(t, ns, cfg))
			return last
		},
		Judge: func(p dptest.Packet) (bool, error) { return last.judge(p) },
		Dump:  func(t *testing.T) string { return strings.Join(blocks(list(t, ns)), "\n\n") },
		Fault: func(t *testing.T) func() { return occupy(t, ns, "wayleave") },
		Spoil: func(s dptest.State) policy.Key {
			key := endpointKey("spoilt")
			s.Endpoints[key] = &dataplane.Endpoint{Interface: "no/interface"}
			return key
		},
		Foreign: func(t *testing.T) func() {
			load(t, ns, "table ip wayleave {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n}\n")
			foreign := list(t, ns)
			return func() { require.Contains(t, list(t, ns), foreign) }
		},
	}
}

// occupy creates a table that a socket owns: no other socket may change it, and the kernel deletes
// it when the socket is closed.
func occupy(t *testing.T, ns *netns.NS, table string) (leave func()) {
	t.Helper()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	b := nfnl.NewBatch()
	b.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, 1, nfnl.Object{Kind: "table", Name: table}) // NFPROTO_INET
	b.String(unix.NFTA_TABLE_NAME, table)
	b.Uint32(unix.NFTA_TABLE_FLAGS, 2) // NFT_TABLE_F_OWNER
	err = conn.Commit(b, nil)
	if errors.Is(err, unix.EINVAL) {
		require.NoError(t, conn.Close())
		nstest.Skip(t, "needs tables that a socket owns (Linux 5.12)")
	}
	require.NoError(t, err)
	return func() {
		require.NoError(t, conn.Close())
		// A program that another test starts at this moment has a copy of the socket for a while.
		for range 1000 {
			if !strings.Contains(list(t, ns), "table inet "+table+" ") {
				return
			}
		}
		require.Fail(t, "the table was not deleted with its owner")
	}
}

// An Apply that changes nothing makes no transaction, and neither does a Resync without drift.
func TestApplyWritesOnlyChanges(t *testing.T) { nfttest.EachForm(t, testApplyWritesOnlyChanges) }

func testApplyWritesOnlyChanges(t *testing.T, classes render.ClassesConfig) {
	ns := nstest.New(t)
	d := open(t, ns, render.Config{Classes: classes})
	empty := generation(t, ns)
	batch := dptest.Transition(dptest.NewState(), allowed())
	require.NoError(t, d.Apply(t.Context(), batch))
	written := generation(t, ns)
	require.Equal(t, empty+1, written, "one transaction")
	for range 3 {
		require.NoError(t, d.Apply(t.Context(), batch))
		require.NoError(t, d.Apply(t.Context(), dataplane.Batch{}))
		require.NoError(t, d.Resync(t.Context()))
	}
	require.Equal(t, written, generation(t, ns))
}

// A batch of only nodes, pools and routes, which is frequent, costs almost nothing.
func TestApplySkipsNetworkEvents(t *testing.T) {
	d := open(t, nstest.New(t), render.Config{})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), allowed())))
	network := dataplane.Batch{Events: []dataplane.Event{&dataplane.NodeRemove{Name: "n1"}, &dataplane.RouteRemove{}}}
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { require.NoError(t, d.Apply(t.Context(), network)) }), 5.0)
}

// The first Apply changes any table with our table's name to the desired state.
func TestFirstApplyRepairsAnyTable(t *testing.T) { nfttest.EachForm(t, testFirstApplyRepairsAnyTable) }

func testFirstApplyRepairsAnyTable(t *testing.T, classes render.ClassesConfig) {
	damaged, clean := nstest.New(t), nstest.New(t)
	load(t, damaged, `table inet wayleave {
		flags dormant
		map senders4 { type ipv4_addr : verdict; elements = { 192.0.2.1 : goto z }; }
		chain z { }
		chain forward-egress {
			type filter hook forward priority 77; policy drop; ip saddr vmap @senders4; jump output;
		}
		chain output { }
	}`)
	for _, ns := range []*netns.NS{damaged, clean} {
		require.NoError(
			t,
			open(t, ns, render.Config{Classes: classes}).Apply(
				t.Context(), dptest.Transition(dptest.NewState(), allowed()),
			),
		)
	}
	require.Equal(t, blocks(list(t, clean)), blocks(list(t, damaged)))
}

// Other tables stay as they are, also one of another family with our name.
func TestForeignTablesUntouched(t *testing.T) { nfttest.EachForm(t, testForeignTablesUntouched) }

func testForeignTablesUntouched(t *testing.T, classes render.ClassesConfig) {
	const foreign = "table inet other {\n\tchain c {\n" +
		"\t\ttype filter hook forward priority filter; policy accept;\n\t\tip saddr 192.0.2.1 drop\n\t}\n}\n" +
		"table ip wayleave {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n}\n"
	ns := nstest.New(t)
	load(t, ns, foreign)
	before := list(t, ns)
	d := open(t, ns, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), allowed())))
	ours := list(t, ns)
	require.Contains(t, ours, before)
	require.NoError(t, d.Resync(t.Context()))
	require.Equal(t, ours, list(t, ns))
	require.NoError(t, d.Teardown(t.Context()))
	require.Equal(t, before, list(t, ns))
}

// Two dataplanes with tables of their own share a namespace.
func TestTwoTables(t *testing.T) { nfttest.EachForm(t, testTwoTables) }

func testTwoTables(t *testing.T, classes render.ClassesConfig) {
	ns := nstest.New(t)
	one := open(t, ns, render.Config{Classes: classes, Table: "one"})
	two := open(t, ns, render.Config{Classes: classes, Table: "two"})
	batch := dptest.Transition(dptest.NewState(), allowed())
	require.NoError(t, one.Apply(t.Context(), batch))
	alone := list(t, ns)
	require.NoError(t, two.Apply(t.Context(), batch))
	require.NoError(t, one.Resync(t.Context()))
	require.NoError(t, two.Teardown(t.Context()))
	require.Equal(t, alone, list(t, ns))
}

// If the kernel refuses the table, the old one stays. The error has the kernel's message and no
// object. The next Apply programs everything.
func TestApplyRefused(t *testing.T) { nfttest.EachForm(t, testApplyRefused) }

func testApplyRefused(t *testing.T, classes render.ClassesConfig) {
	ns := nstest.New(t)
	leave := occupy(t, ns, "wayleave")
	d := open(t, ns, render.Config{Classes: classes})
	before := list(t, ns)
	err := d.Apply(t.Context(), dptest.Transition(dptest.NewState(), allowed()))
	var apply *dataplane.ApplyError
	require.ErrorAs(t, err, &apply)
	require.Equal(t, "nft", apply.Backend)
	require.Zero(t, apply.Object)
	var other *applier.OwnedError
	require.ErrorAs(t, err, &other)
	require.Equal(t, before, list(t, ns))
	leave()
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{}))
	require.Contains(t, list(t, ns), "chain from/test/way1")
}

// An endpoint that cannot be rendered is reported with its key, and the others are programmed.
func TestApplyReportsObjects(t *testing.T) { nfttest.EachForm(t, testApplyReportsObjects) }

func testApplyReportsObjects(t *testing.T, classes render.ClassesConfig) {
	ns := nstest.New(t)
	d := open(t, ns, render.Config{Classes: classes})
	s := allowed()
	broken := policy.Key{Kind: policy.KindPolicy, Name: "broken"}
	s.Policies[broken] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "b1", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:missing"}}},
	}}
	err := d.Apply(t.Context(), dptest.Transition(dptest.NewState(), s))
	var apply *dataplane.ApplyError
	require.ErrorAs(t, err, &apply)
	require.Equal(t, "broken", apply.Object.Name)
	require.Contains(t, list(t, ns), "chain from/test/way1")
	written := generation(t, ns)
	require.Error(t, d.Apply(t.Context(), dataplane.Batch{}), "still at fault")
	require.Equal(t, written, generation(t, ns), "nothing is written")
}

// If the context is done, Apply writes nothing, but keeps the desired state.
func TestApplyDoneContext(t *testing.T) { nfttest.EachForm(t, testApplyDoneContext) }

func testApplyDoneContext(t *testing.T, classes render.ClassesConfig) {
	ns := nstest.New(t)
	d := open(t, ns, render.Config{Classes: classes})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Apply(ctx, dptest.Transition(dptest.NewState(), allowed())), context.Canceled)
	require.ErrorIs(t, d.Teardown(ctx), context.Canceled)
	require.Empty(t, list(t, ns))
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{}))
	require.NotEmpty(t, list(t, ns))
}

func TestNewRefusesConfig(t *testing.T) {
	_, err := nft.New(nft.Config{NetNS: -1})
	require.ErrorContains(t, err, "NetNS")
	_, err = nft.New(nft.Config{Renderer: render.Config{InterfacePrefix: "much too long for a name"}})
	require.ErrorContains(t, err, "InterfacePrefix")
	_, err = nft.New(nft.Config{NetNS: 1 << 20})
	require.Error(t, err, "no such file descriptor")
}
