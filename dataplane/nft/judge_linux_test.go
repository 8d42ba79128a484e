// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"cmp"
	"context"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

// simulated is a Dataplane whose verdicts are those of simulated packets in its programmed table.
type simulated struct {
	*nft.Dataplane
	interfaces map[policy.Key]string
	sim        *simulate.Simulator // of the table since the last batch
}

func newSimulated(d *nft.Dataplane) *simulated {
	return &simulated{Dataplane: d, interfaces: map[policy.Key]string{}}
}

func (s *simulated) Apply(ctx context.Context, b dataplane.Batch) error {
	for _, e := range b.Events {
		if u, ok := e.(*dataplane.EndpointUpdate); ok {
			s.interfaces[u.Key] = u.Endpoint.Interface
		}
	}
	s.sim = nil
	return s.Dataplane.Apply(ctx, b)
}

// judge runs the packet through the forward hook.
func (s *simulated) judge(p dptest.Packet) (allowed bool, err error) {
	if s.sim == nil {
		if s.sim, err = simulate.New(simulate.Config{Table: s.Table()}); err != nil {
			return false, err
		}
	}
	result, err := s.sim.Run(ruleset.Forward, simulate.Packet{
		IIFName: cmp.Or(s.interfaces[p.From], "eth0"), OIFName: cmp.Or(s.interfaces[p.To], "eth0"),
		Src: p.Src, Dst: p.Dst, Protocol: uint8(p.Protocol), SrcPort: p.SrcPort, DstPort: p.DstPort,
		Header: [ruleset.HeaderFields]uint16{
			ruleset.HeaderDSCP:     uint16(p.DSCP),
			ruleset.HeaderICMPType: uint16(p.ICMPType), ruleset.HeaderICMPCode: uint16(p.ICMPCode),
		},
	}, simulate.Conn{})
	return result.Verdict == ruleset.Accept, err
}
