// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// TestPriorities: a packet that policy allows keeps its mark, and its priority if that is listed;
// any other priority becomes zero. A packet that arrives with the priority of a class, an outcome
// or an allowed packet is still subject to policy.
func TestPriorities(t *testing.T) { nfttest.EachFormInParallel(t, testPriorities) }

func testPriorities(t *testing.T, classes render.ClassesConfig) {
	host := policy.HostConfig{HostToEndpointAction: policy.HostReturn, EndpointToHostAction: policy.HostAccept}
	for _, kept := range [][]uint32{nil, {}, {7, 1 << 16}} {
		classes.Priorities = kept
		table, errs := rendered(t, render.Config{Classes: classes, Host: host}, transition(tiersState()))
		require.Empty(t, errs)
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
						packet := ruleset.Packet{
							IIFName: p.iif, OIFName: p.oif, Src: p.src, Dst: p.dst, Protocol: p.proto,
							Transport: p.transport, Mark: mark, Priority: priority,
						}
						got, err := table.Simulate(hook, packet, ruleset.Conn{})
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

// numbersOf are all that stand for classes and outcomes in a table.
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
