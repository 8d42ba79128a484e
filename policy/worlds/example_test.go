// SPDX-License-Identifier: Apache-2.0

package worlds_test

import (
	"fmt"

	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// A world, and the verdicts of packets in it. Equal seeds give equal worlds.
func ExampleGenerator_World() {
	gen := worlds.New(worlds.Config{Seed: 1, Policies: 4, Interfaces: []string{"veth1", "veth2"}})
	world := verdict.World{}
	world.Set(gen.World()...)
	evaluator := verdict.New(world)
	outcomes := map[verdict.Outcome]int{}
	for range 1000 {
		p := gen.Packet()
		result := evaluator.Evaluate(verdict.Flow{
			Src: p.Src, Dst: p.Dst, Protocol: p.Protocol, SrcPort: p.SrcPort, DstPort: p.DstPort,
			ICMPType: p.ICMPType, ICMPCode: p.ICMPCode, Header: p.Header,
		})
		outcomes[result.Combined]++
	}
	fmt.Println(outcomes[verdict.Allow] > 0, outcomes[verdict.Deny] > 0)
	// Output: true true
}
