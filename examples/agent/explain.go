// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

func explainCommand() command {
	return command{
		name:    "explain",
		args:    "FROM TO PROTOCOL[/PORT]",
		summary: "say whether policy lets one party reach another, and why",
		about: `Walks through every tier, policy and rule that has a say in a flow. FROM and TO are pods
(NAMESPACE/NAME) or addresses; where both families are possible each is explained. It
touches nothing and needs no rights. Examples:

  agent explain --manifests DIR shop/web data/db tcp/5432
  agent explain --manifests DIR 198.51.100.10 shop/web icmp`,
		prepare: func(flags *flag.FlagSet) action {
			var cfg pipeline.Config
			manifestFlags(flags, &cfg)
			asJSON := flags.Bool("json", false, "write JSON, one object a flow")
			return func(_ context.Context, c console, args []string) error {
				if len(args) != 3 {
					return usagef("explain: want FROM TO PROTOCOL[/PORT] after the flags")
				}
				if err := complete(&cfg); err != nil {
					return err
				}
				world, rejected := pipeline.Load(cfg)
				flows, err := parseFlows(world, args[0], args[1], args[2])
				if err != nil {
					return errors.Join(append(rejected, err)...)
				}
				evaluator := verdict.New(world)
				for _, flow := range flows {
					if err := printExplanation(c, evaluator.Explain(flow), *asJSON); err != nil {
						return err
					}
				}
				return errors.Join(rejected...)
			}
		},
	}
}

func printExplanation(c console, x *verdict.Explanation, asJSON bool) error {
	if !asJSON {
		c.printf("%s", x)
		return nil
	}
	return json.NewEncoder(c.out).Encode(x)
}

// parseFlows returns the flows that are meant, one for each pair of addresses of one family.
func parseFlows(world verdict.World, from, to, what string) ([]verdict.Flow, error) {
	sources, err := parseParty(world, from)
	if err != nil {
		return nil, err
	}
	destinations, err := parseParty(world, to)
	if err != nil {
		return nil, err
	}
	protocol, port, err := parseService(what)
	if err != nil {
		return nil, err
	}
	var flows []verdict.Flow
	for _, src := range sources {
		for _, dst := range destinations {
			if src.Is6() != dst.Is6() {
				continue
			}
			flow := verdict.Flow{Src: src, Dst: dst, Protocol: protocol, DstPort: port}
			switch {
			case protocol.HasPorts():
				flow.SrcPort = 40_000 // some port
			case protocol == policy.ProtocolICMP && src.Is6():
				flow.Protocol, flow.ICMPType = policy.ProtocolICMPv6, probe.EchoRequestV6
			case protocol == policy.ProtocolICMP:
				flow.ICMPType = probe.EchoRequest
			}
			flows = append(flows, flow)
		}
	}
	if len(flows) == 0 {
		return nil, fmt.Errorf("%s and %s have no addresses of one family", from, to)
	}
	return flows, nil
}

// parseParty returns the addresses of a pod, or the address that the text is.
func parseParty(world verdict.World, text string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	for _, resource := range world {
		if e, ok := resource.(*policy.WorkloadEndpoint); ok && e.Namespace+"/"+e.Name == text {
			return e.Addresses, nil
		}
	}
	return nil, fmt.Errorf("%q is neither an address nor a pod (NAMESPACE/NAME) in the manifests", text)
}

// parseService reads "tcp/80" or "icmp", which means an echo request.
func parseService(text string) (policy.Protocol, uint16, error) {
	name, digits, hasPort := strings.Cut(text, "/")
	protocol, err := policy.ParseProtocol(name)
	if err != nil {
		return 0, 0, usageError{err}
	}
	if !protocol.HasPorts() && !hasPort {
		return protocol, 0, nil
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || !protocol.HasPorts() {
		return 0, 0, usagef("%q: want PROTOCOL/PORT, as in tcp/80, or icmp", text)
	}
	return protocol, uint16(port), nil
}
