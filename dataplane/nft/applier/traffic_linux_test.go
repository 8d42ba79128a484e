// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// counted is a table that counts outgoing packets to port 9, and accepts them by a map.
func counted(rules ...ruleset.Rule) *ruleset.Table {
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{{
			Name: "leads", Key: []ruleset.Type{ruleset.TypeService}, Verdicts: true,
			Elements: []ruleset.Element{to(ruleset.Jump, "nine", ruleset.Port(9))},
		}},
		Chains: []*ruleset.Chain{
			{Name: "out", Hook: &ruleset.Hook{Point: ruleset.Output, Policy: drop}, Rules: []ruleset.Rule{
				rule(is(ruleset.L4Proto, ruleset.Byte(17)), ruleset.VMap{
					Fields: []ruleset.Field{ruleset.Dport}, Map: "leads",
				}),
			}},
			chain(
				"nine",
				append(
					[]ruleset.Rule{rule(is(ruleset.L4Proto, ruleset.Byte(17)), ruleset.Counter{}, "hits")},
					append(rules, rule(accept))...,
				)...,
			),
		},
	}
	t.Normalize()
	return t
}

// hits returns the packets that were counted.
func hits(t *testing.T, ns *netns.NS) int {
	t.Helper()
	m := regexp.MustCompile(`counter packets (\d+) bytes \d+ comment "hits"`).FindStringSubmatch(
		nft(t, ns, "", "list", "table", "inet", tableName),
	)
	require.NotNil(t, m)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// Traffic flows without loss while the table is adopted, repaired and changed, and unchanged rules
// keep their counters.
func TestTrafficFlows(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, counted()))
	stop, done := make(chan struct{}), make(chan error, 1)
	sent := make(chan int, 1)
	go func() {
		n := 0
		done <- ns.Do(func() error {
			conn, err := net.Dial("udp", "127.0.0.1:9")
			if err != nil {
				return err
			}
			defer conn.Close()
			for ; ; n++ {
				select {
				case <-stop:
					sent <- n
					return nil
				default:
				}
				// EPERM means that the packet was dropped
				if _, err := conn.Write([]byte("x")); err != nil && !isRefusedPort(err) {
					sent <- n
					return err
				} else if err != nil {
					n-- // the error of an earlier packet: nothing was sent
				}
			}
		})
	}()
	for range 20 {
		b, err := applier.New(applier.Config{Name: tableName, Shared: true, NetNS: ns.FD()})
		require.NoError(t, err)
		before := generation(t, ns)
		require.NoError(t, b.Apply(bg, counted()))
		require.Equal(t, before, generation(t, ns))
		require.NoError(t, b.Apply(bg, counted(rule(isTCP, drop))))
		require.NoError(t, b.Apply(bg, counted(rule(isTCP, accept), rule(isTCP, drop))))
		nft(t, ns, "add chain inet own foreign")
		require.NoError(t, b.Resync(bg))
		require.NoError(t, b.Apply(bg, counted()))
		require.NoError(t, b.Close())
	}
	close(stop)
	require.NoError(t, <-done)
	require.Equal(t, <-sent, hits(t, ns), "packets sent and counted")
}

func isRefusedPort(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }

// Appliers of several tables in one namespace do not disturb each other, and report no drift for
// each other's changes.
func TestAppliersOfSeveralTablesAreIndependent(t *testing.T) {
	ns := nstest.New(t)
	all := map[string]*applier.Applier{}
	for _, name := range []string{"one", "two", "three"} {
		all[name] = openWith(t, ns, applier.Config{Shared: true, Name: name})
	}
	for range 5 {
		for name, a := range all {
			table := sample()
			table.Name = name
			require.NoError(t, a.Apply(bg, table))
			require.NoError(t, a.Apply(bg, &ruleset.Table{Name: name}))
		}
	}
	for _, a := range all {
		require.EqualValues(t, 1, a.Stats().Readings)
		require.Zero(t, a.Stats().Drifts)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]applier.Config{
		"no name":     {},
		"namespace":   {Name: "a", NetNS: -1},
		"batch small": {Name: "a", MaxBatch: 10},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := applier.New(cfg)
			require.Error(t, err)
		})
	}
	a := open(t, nstest.New(t))
	require.ErrorIs(t, a.Resync(bg), applier.ErrUnknown)
	require.Error(t, a.Apply(bg, &ruleset.Table{Name: "another"}))
}
