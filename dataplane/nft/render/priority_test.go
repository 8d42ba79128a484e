// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// TestPriorities: an allowed packet keeps its mark, and its priority if that is listed. Any other
// priority becomes zero. Policy also evaluates a packet that arrives with the priority of a class,
// an outcome or an allowed packet.
func TestPriorities(t *testing.T) { nfttest.EachFormInParallel(t, testPriorities) }

func testPriorities(t *testing.T, classes render.ClassesConfig) {
	host := policy.HostConfig{HostToEndpointAction: policy.HostReturn, EndpointToHostAction: policy.HostAccept}
	for _, kept := range [][]uint32{nil, {}, {7, 1 << 16}} {
		classes.Priorities = kept
		table, errs := nfttest.Rendered(
			t, render.Config{Classes: classes, Host: host}, nfttest.Transition(tiersState()),
		)
		require.Empty(t, errs)
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		if kept == nil {
			kept = []uint32{1, 2, 4, 6}
		}
		ways := map[ruleset.HookPoint][2]simPacket{ // one that passes, one that is denied
			ruleset.Forward: {
				tcpPacket("eth0", "10.0.1.1", "way1", "10.0.0.1", ruleset.CtNew),
				tcpPacket("eth0", "10.0.1.3", "way1", "10.0.0.1", ruleset.CtNew),
			},
			ruleset.Output: {
				tcpPacket("", "10.0.1.1", "way1", "10.0.0.1", ruleset.CtNew),
				tcpPacket("", "10.0.1.3", "way1", "10.0.0.1", ruleset.CtNew),
			},
			ruleset.Input: {
				tcpPacket("way1", "10.0.0.1", "", "10.0.1.3", ruleset.CtNew),
				tcpPacket("way1", "10.0.0.7", "", "10.0.1.3", ruleset.CtNew),
			},
		}
		for hook, packets := range ways {
			for _, priority := range append(numbersOf(table), 0, 1, 2, 4, 6, 7, 1<<16, 1<<32-2, 1<<32-1) {
				for _, mark := range []uint32{0, 0x4000, 1337} {
					for i, p := range packets {
						what := fmt.Sprintf(
							"hook %d, packet %d, priority %x, kept %v\n%s", hook, i, priority, kept, table,
						)
						packet := simulate.Packet{
							IIFName: p.IIF, OIFName: p.OIF, Src: p.Src, Dst: p.Dst, Protocol: p.Proto,
							Transport: p.Transport, Mark: mark, Priority: priority,
						}
						got, err := s.Run(hook, packet, simulate.Conn{})
						require.NoError(t, err)
						require.Equal(t, i == 0, got.Verdict == ruleset.Accept, what)
						if i > 0 {
							continue
						}
						want := priority &^ (3 << 30)
						if !slices.Contains(kept, priority) {
							want = 0
						}
						require.Equal(t, want, got.Packet.Priority, what)
						require.Equal(t, mark, got.Packet.Mark, what)
					}
				}
			}
		}
	}
}

// At every hook of random worlds with host endpoints, an allowed packet keeps a listed priority.
// Another priority is kept or becomes zero. No decision depends on the priority.
func TestPrioritiesOfHosts(t *testing.T) { nfttest.EachFormInParallel(t, testPrioritiesOfHosts) }

func testPrioritiesOfHosts(t *testing.T, classes render.ClassesConfig) {
	allowed := map[ruleset.HookPoint]int{}
	hooks := []ruleset.HookPoint{
		ruleset.Prerouting, ruleset.Input, ruleset.Forward, ruleset.Output, ruleset.Postrouting,
	}
	for _, seed := range worldFlags.Seeds(20, 20) {
		c := nfttest.NewCluster(t, seed, classes)
		for range 50 {
			c.Mutate()
		}
		c.Renderer.Update(c.Graph.Flush())
		table, _ := c.Renderer.Table()
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		e, err := verdict.NewConfigured(c.Resources, c.Settings)
		require.NoError(t, err)
		workloads := c.Workloads(e)
		for range 300 {
			f, from, to := c.Flow(workloads)
			hook := nfttest.Pick(c.World, hooks)
			p, ok := packetAt(c, hook, f, from, to)
			if !ok {
				continue
			}
			want := p.Run(t, s, hook)
			p.Priority = nfttest.Pick(c.World, append(
				numbersOf(table), 1, 6, 99, 1<<30, 0xbffffffc, 0xbffffffd, 0xfffffffc, 0xffffff00, 0xffffff80,
			))
			got := p.Run(t, s, hook)
			require.Equal(t, want.Allowed, got.Allowed, "seed %d: hook %d, %v\n%s", seed, hook, p, table)
			require.Equal(t, want.Notrack, got.Notrack, "seed %d: hook %d, %v\n%s", seed, hook, p, table)
			if !got.Allowed {
				continue
			}
			allowed[hook]++
			if got.Priority != 0 || p.Priority == 1 || p.Priority == 6 {
				require.Equal(t, p.Priority, got.Priority, "seed %d: hook %d, %v\n%s", seed, hook, p, table)
			}
		}
	}
	for _, hook := range hooks {
		require.Greater(t, allowed[hook], 20, hook)
	}
}

// numbersOf returns the numbers of all classes and outcomes in a table.
func numbersOf(table *ruleset.Table) (out []uint32) {
	for _, s := range table.Sets {
		if len(s.Data) == 1 && s.Data[0] == ruleset.TypeClassID {
			for _, e := range s.Elements {
				out = append(out, binary.NativeEndian.Uint32(e.Data[0]))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
