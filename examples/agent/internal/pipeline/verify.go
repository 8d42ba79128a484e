// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// verifications is how often Verify compares at most, if the table changes each time.
const verifications = 3

// Verified is the result of Verify. String formats it for people, and encoding/json for programs.
type Verified struct {
	// Table is the name of the nftables table.
	Table string `json:"table"`
	// Kernel compares the kernel's table with the desired one. Nil means that the kernel's table
	// was not read.
	Kernel *applier.Comparison `json:"kernel,omitempty"`
	// Policy compares the desired table with policy.
	Policy prove.Report `json:"policy"`
}

// Differs reports whether there is a difference.
func (v Verified) Differs() bool { return v.Kernel != nil && !v.Kernel.Equal() || !v.Policy.Agrees() }

// String returns the text of both comparisons, on several lines.
func (v Verified) String() string {
	kernel := "not compared with the kernel"
	if v.Kernel != nil {
		kernel = "in the kernel: " + strings.TrimRight(v.Kernel.String(), "\n")
	}
	return fmt.Sprintf("table %s %s\n%s", v.Table, kernel, v.Policy)
}

// Verify compares the table in the kernel with the desired table, and the desired table with the
// policy of the sources. It changes nothing. If it finds a difference, but the table changed during
// the call, it compares again.
//
// Errors: ErrRemote, and those of nft.Dataplane.Compare and prove.Table.
func (p *Pipeline) Verify(
	ctx context.Context, limit int, progress func(done, all int) error,
) (v Verified, err error) {
	if p.kernel == nil {
		return v, ErrRemote
	}
	for range verifications {
		world := p.World()
		if err := stopped(p.runner.Barrier(ctx)); err != nil {
			return v, err
		}
		kernel, err := p.kernel.table.Compare(ctx)
		if err != nil {
			return v, err
		}
		bridges := p.kernel.table.Bridges()
		table := p.kernel.table.Table()
		if table == nil {
			return v, nft.ErrNoTable
		}
		v, err = prover{p.cfg, bridges}.prove(ctx, world, table, limit, progress)
		if v.Kernel = &kernel; err != nil || !v.Differs() {
			return v, err
		}
		now := p.kernel.table.Table()
		if now != nil && now.Equal(table) && maps.Equal(p.kernel.table.Bridges(), bridges) {
			break
		}
	}
	return v, nil
}

// Prove compares a table with the policy of the objects in world. It needs no table in the kernel.
// It does not know which interfaces are ports of Config.Bridges, so it treats none as a port. It
// reads from the kernel only if a host endpoint of the node has no interface name. In this case, it
// reads the addresses of the interfaces in the network namespace Config.NetNS.
//
// Errors: those of prove.Table.
func Prove(
	ctx context.Context, cfg Config, world verdict.World, table *ruleset.Table, limit int,
	progress func(done, all int) error,
) (v Verified, err error) {
	return prover{cfg: cfg}.prove(ctx, world, table, limit, progress)
}

// prover compares tables of a pipeline with policy.
type prover struct {
	cfg Config
	// bridges is prove.Config.Bridges.
	bridges map[string]string
}

func (p prover) prove(
	ctx context.Context, world verdict.World, table *ruleset.Table, limit int, progress func(done, all int) error,
) (v Verified, err error) {
	cfg := p.cfg
	v.Table, cfg = cmp.Or(cfg.Table, "wayleave"), cfg.withDefaults()
	settings := verdict.Config{Host: cfg.renderer().Host}
	if byAddress(world, cfg.Node) {
		addrs, err := hostInterfaces(cfg.NetNS)
		if err != nil {
			return v, err
		}
		settings.Interfaces = map[string]map[string][]netip.Addr{cfg.Node: addrs}
	}
	v.Policy, err = prove.Table(ctx, prove.Config{
		World: world, Verdict: settings, Node: cfg.Node, Table: table, InterfacePrefix: cfg.InterfacePrefix,
		Bridges: p.bridges, Limit: limit, Progress: progress,
	})
	return v, err
}

// byAddress reports whether a host endpoint of the node has no interface name: then its interface
// is found by the expected addresses.
func byAddress(world verdict.World, node string) bool {
	for _, r := range world {
		if h, ok := r.(*policy.HostEndpoint); ok && h.Node == node && h.InterfaceName == "" {
			return true
		}
	}
	return false
}

// hostInterfaces returns the addresses of the interfaces of a network namespace.
func hostInterfaces(netNS int) (map[string][]netip.Addr, error) {
	snapshot, err := interfaces.Read(interfaces.Config{NetNS: netNS})
	if err != nil {
		return nil, err
	}
	all := map[string][]netip.Addr{}
	for _, i := range snapshot.All() {
		all[i.Name] = []netip.Addr{}
		for _, p := range i.Addresses {
			all[i.Name] = append(all[i.Name], p.Addr())
		}
	}
	return all, nil
}
