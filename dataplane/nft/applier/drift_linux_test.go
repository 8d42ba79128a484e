// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// foreign has changes of our table that another process may make.
var foreign = map[string]string{
	"flush ruleset":  "flush ruleset",
	"delete table":   "delete table inet own",
	"flush table":    "flush table inet own",
	"delete rule":    "flush chain inet own db",
	"add rule":       "add rule inet own web counter accept",
	"insert rule":    "insert rule inet own forward accept",
	"add element":    "add element inet own hosts { 10.9.9.9 }",
	"delete element": "delete element inet own hosts { 10.0.0.1 }",
	"change of a verdict": "delete element inet own from { \"cali3\" }\n" +
		"add element inet own from { \"cali3\" : goto web }",
	"interval":      "add element inet own nets { 10.7.0.0/16 }",
	"interval gone": "delete element inet own nets { 10.1.0.0/16 }",
	"chain":         "add chain inet own extra\nadd rule inet own web jump extra",
	"base chain":    "add chain inet own extra { type filter hook input priority 0; policy drop; }",
	"switched off":  "add table inet own { flags dormant; }",
	"policy":        "chain inet own forward { policy drop; }",
	"hook": "flush chain inet own forward\ndelete chain inet own forward\n" +
		"add chain inet own forward { type filter hook forward priority 7; policy drop; }",
	"hook gone": "flush chain inet own forward\ndelete chain inet own forward\n" +
		"add chain inet own forward\nadd rule inet own forward counter",
	"hook of another chain": "flush chain inet own db\ndelete element inet own from { \"cali2\" }\n" +
		"delete chain inet own db\nadd chain inet own db { type nat hook output priority 0; }",
	"set": "add set inet own extra { type ipv4_addr; elements = { 10.0.0.1 } }\n" +
		"add rule inet own web ip saddr @extra drop",
	"map to a chain": "add chain inet own extra\n" +
		"add map inet own lead { type ipv4_addr : verdict; elements = { 10.0.0.1 : jump extra } }\n" +
		"add rule inet own web ip saddr vmap @lead",
	"stateful object":        "add counter inet own hits\nadd rule inet own web counter name hits",
	"renamed chain":          "rename chain inet own db other",
	"renamed and replaced":   "rename chain inet own web other\nadd chain inet own web",
	"the same text":          "",
	"element to a new chain": "add chain inet own extra\nadd element inet own from { \"cali9\" : jump extra }",
}

// Every change of our table by another process is detected and repaired, and counters of unchanged
// objects survive.
func TestDrift(t *testing.T) {
	for name, script := range foreign {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
			require.NoError(t, a.Apply(bg, sample()))
			nft(t, ns, "table ip other { chain c { counter; }; }")
			require.NoError(t, a.Resync(bg))
			require.EqualValues(t, 1, a.Stats().Readings, "another table is not drift")
			if script == "" {
				script = "flush table inet own\ndelete table inet own\n" + sample().String()
			}
			for _, line := range []string{script} {
				nft(t, ns, line)
			}
			require.NoError(t, a.Resync(bg))
			require.EqualValues(t, 1, a.Stats().Drifts)
			require.EqualValues(t, 1, a.Stats().Repairs)
			nft(t, ns, "table ip other\ndelete table ip other")
			requireLists(t, ns, sample())

			before := generation(t, ns)
			b := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
			require.NoError(t, b.Apply(bg, sample()))
			require.Equal(t, before, generation(t, ns), "nothing to repair")
			require.NoError(t, a.Resync(bg))
			require.Equal(t, before, generation(t, ns))
		})
	}
}

// An element with a counter in a set without counters is replaced by the desired one. nft 1.0.6
// cannot express it.
func TestForeignElementCounter(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	before := listing(t, ns)
	nft(t, ns, "delete element inet own hosts { 10.0.0.1 }")
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer conn.Close()
	b := nfnl.NewBatch()
	b.Message(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{})
	b.String(unix.NFTA_SET_ELEM_LIST_TABLE, tableName)
	b.String(unix.NFTA_SET_ELEM_LIST_SET, "hosts")
	list := b.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	elem := b.Begin(unix.NFTA_LIST_ELEM)
	key := b.Begin(unix.NFTA_SET_ELEM_KEY)
	b.Bytes(unix.NFTA_DATA_VALUE, addr("10.0.0.1"))
	b.End(key)
	expr := b.Begin(unix.NFTA_SET_ELEM_EXPR)
	b.String(unix.NFTA_EXPR_NAME, "counter")
	b.End(b.Begin(unix.NFTA_EXPR_DATA))
	b.End(expr)
	b.End(elem)
	b.End(list)
	require.NoError(t, conn.Commit(b, nil), nil)
	require.Contains(t, listing(t, ns), "10.0.0.1 counter")
	require.NoError(t, a.Resync(bg))
	require.EqualValues(t, 1, a.Stats().Repairs)
	require.Equal(t, before, listing(t, ns))
}

// If the changes were made while no process watched, the next process reads them back.
func TestAdoptForeignChange(t *testing.T) {
	for name, script := range foreign {
		if script == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			require.NoError(t, open(t, ns).Apply(bg, sample()))
			nft(t, ns, script)
			b := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
			require.NoError(t, b.Apply(bg, sample()))
			transactions := 1
			switch name {
			case "policy": // A last rule has the verdict of the policy for a grace period.
				transactions = 3
			case "hook": // A guard table drops packets meanwhile.
				transactions = 3
			case "map to a chain": // It is deleted once no packet is looked up in it.
				transactions = 2
			}
			require.EqualValues(t, transactions, b.Stats().Transactions)
			requireLists(t, ns, sample())
		})
	}
}

// A foreign change between two changes of ours is detected, and repaired before the second one is
// programmed.
func TestUpdateAfterForeignChange(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	nft(t, ns, "insert rule inet own web accept\ndelete element inet own hosts { 10.0.0.1 }")
	more := findChain(change(func(t *ruleset.Table) {
		c := findChain(t, "web")
		c.Rules = append(c.Rules[:1:1], rule(ruleset.Counter{}), c.Rules[1])
	}), "web")
	require.NoError(t, a.Update(bg, &ruleset.Delta{Chains: []*ruleset.Chain{more}}))
	requireLists(t, ns, change(func(t *ruleset.Table) { findChain(t, "web").Rules = more.Rules }))
}

// An empty update repairs a change that another process made before.
func TestEmptyUpdateAfterForeignChange(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	nft(t, ns, "delete element inet own hosts { 10.0.0.1 }")
	require.NoError(t, a.Update(bg, &ruleset.Delta{}))
	requireLists(t, ns, sample())
	nft(t, ns, "delete element inet own hosts { 10.0.0.1 }")
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

// If another table changes at any moment, a transaction is only sent again.
func TestChangesOfOtherTablesAreNoDrift(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	for i := range byte(20) {
		nft(t, ns, "table ip other { chain c { counter; }; }")
		require.NoError(t, a.Update(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{{
			Set: "hosts", Add: []ruleset.Element{element(ruleset.Value{10, 8, 0, i})},
		}}}))
		nft(t, ns, "delete table ip other")
	}
	require.EqualValues(t, 1, a.Stats().Readings)
	require.EqualValues(t, 0, a.Stats().Drifts)
}

// Watch reports the process of a change, and the owner repairs the table.
func TestWatch(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	ctx, cancel := context.WithCancel(bg)
	drifts, done := make(chan applier.Drift, 10), make(chan error, 1)
	go func() { done <- a.Watch(ctx, func(d applier.Drift) { drifts <- d }) }()
	for _, script := range []string{
		"flush ruleset", "delete table inet own", "add element inet own hosts { 10.9.9.9 }",
	} {
		nft(t, ns, "table ip other")
		nft(t, ns, script)
		d := <-drifts
		require.Equal(t, "nft", d.Process)
		require.NotZero(t, d.PID)
		require.False(t, d.Missed)
		require.NoError(t, a.Resync(bg))
		nft(t, ns, "table ip other\ndelete table ip other")
		requireLists(t, ns, sample())
	}
	require.NoError(t, a.Update(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{{
		Set: "hosts", Add: []ruleset.Element{element(addr("10.8.8.8"))},
	}}}))
	require.Empty(t, drifts, "our own changes are not drift")
	require.EqualValues(t, 3, a.Stats().Drifts)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestWatchEndsWithClose(t *testing.T) {
	ns := nstest.New(t)
	a, err := applier.New(applier.Config{Name: tableName, Shared: true, NetNS: ns.FD()})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- a.Watch(bg, func(applier.Drift) {}) }()
	require.NoError(t, a.Close())
	require.True(t, errors.Is(<-done, applier.ErrClosed))
	require.ErrorIs(t, a.Apply(bg, sample()), applier.ErrClosed)
}
