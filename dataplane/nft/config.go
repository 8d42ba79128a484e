// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/late"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// backend is the name of this package in its errors.
const backend = "nft"

// Config configures a Dataplane.
type Config struct {
	// Renderer configures the table. No other program may use the name of the table.
	Renderer render.Config
	// NetNS is a file descriptor of the network namespace whose packets the table filters. New and
	// Compare use it. Zero means the namespace of the thread that calls New.
	NetNS int
	// Shared lets other processes change the table; see applier.Config. By default, from Linux 6.9
	// on, the Dataplane owns the table: until Close, the kernel refuses the writes of all other
	// processes. Set Shared if other programs must be able to flush or delete the table.
	Shared bool
	// Interfaces returns all interfaces of the namespace, by name. Nil means to query the kernel.
	// Resync and Plan call Interfaces. Apply calls it if the batch adds or changes workload
	// endpoints. If Renderer.Bridges is set, or a host endpoint has addresses but no interface
	// name, Apply calls it for every change of policy or endpoints. If Interfaces is set, Watch
	// does not detect changes of interfaces; call Resync when they change.
	Interfaces func() (map[string]render.Interface, error)
	// ConntrackPolicy decides about established connections that a change of policy denies.
	// conntrack.Keep, the default, keeps these connections, at no cost. conntrack.End ends them.
	// With conntrack.End, also set render.Config.TCPFromSYN. When an address moves to another
	// endpoint, its connections always end.
	ConntrackPolicy conntrack.Policy
	// Conntrack limits the rates at which conntrack.End examines and ends connections. The
	// Dataplane uses neither Conntrack.NetNS nor Conntrack.BeforeEnd. If Conntrack.Logger is nil,
	// it uses Config.Logger.
	Conntrack conntrack.Config
	// Flowtable lets packets of established connections use the kernel's fast path.
	Flowtable FlowtableConfig
	// BeforeWrite is called before each transaction; see applier.Config. If it returns an error,
	// the transaction is not sent. By then, the connections of a moved address may have ended
	// already. BeforeWrite is not called for transactions that concern only late packets. These are
	// packets of an ended connection, such as replies that were under way. Optional.
	BeforeWrite func() error
	// Logger logs events of the table. Nil discards.
	Logger *slog.Logger
}

// FlowtableConfig configures the fast path: a flowtable of the kernel. Packets of established
// connections on the fast path bypass all chains, routing and connection tracking. A connection may
// use the fast path if both are true:
//
//   - It is a TCP or UDP connection, or GRE where the kernel supports that.
//   - It is between two workloads of the node, or between a workload and an uplink.
//
// The fast path needs the module nft_flow_offload, and Linux 6.4 or later, or 6.1.37 or a later
// release of 6.1. Without these, the Dataplane logs a *dataplane.FeatureError once, and all packets
// traverse the chains.
//
// A connection that policy ends must not continue on the fast path. So the Dataplane deletes the
// flowtable before each change of endpoints and in Resync, and installs it again afterwards.
//
// Do not use the fast path in these cases:
//
//   - Chains of other tables must see the packets. On the fast path, their counters, marks and rate
//     limits do not apply.
//   - Established connections must also use a new route in another routing table, such as the table
//     for WireGuard. On the fast path, the kernel keeps the old route of a connection as long as
//     the old route is valid.
//   - Answers must leave by another uplink than the one by which the packets came. On the fast
//     path, they leave by the same uplink.
//
// The file docs/nft.md has the details. It also lists the cases in which the Dataplane installs no
// flowtable although Enabled is set.
type FlowtableConfig struct {
	// Enabled turns the fast path on. New returns an error if render.Config.ReversePath or Bridges
	// is set, too.
	Enabled bool
	// Uplinks are the names of the node's interfaces to other hosts. New returns an error if one of
	// them is an interface of a workload. If the list is empty, only connections between workloads
	// may use the fast path.
	Uplinks []string
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// revokeConfig returns the configuration of the Revoker.
func revokeConfig(c Config, late *late.Table) revoke.Config {
	sweeps := c.Conntrack
	sweeps.NetNS = c.NetNS
	sweeps.Logger = cmp.Or(sweeps.Logger, c.Logger)
	return revoke.Config{
		Conntrack: sweeps, Table: c.Renderer.Table, Host: hostChains(), Late: late,
		Encapsulations: c.Renderer.Host.NodeEncapsulations(),
	}
}

// hostChains returns the names of the chains that evaluate policy of host endpoints.
func hostChains() revoke.HostChains {
	all, untrackedOut := render.HostChains()
	return revoke.HostChains{All: all, UntrackedOut: untrackedOut}
}

func (c Config) validate() error {
	var errs []error
	if c.NetNS < 0 {
		errs = append(errs, fmt.Errorf("nft: Config.NetNS: %d is not a file descriptor", c.NetNS))
	}
	if c.ConntrackPolicy > conntrack.End {
		errs = append(errs, fmt.Errorf("nft: Config.ConntrackPolicy: unknown %s", c.ConntrackPolicy))
	}
	return errors.Join(errs...)
}

// validate checks the uplinks, and options of the renderer that exclude a flowtable. r has its
// defaults.
func (c FlowtableConfig) validate(r render.Config) error {
	var errs []error
	if c.Enabled && (r.ReversePath || len(r.Bridges) > 0) {
		errs = append(errs, errors.New("nft: Config.Flowtable: cannot be combined with ReversePath or Bridges"))
	}
	for _, name := range c.Uplinks {
		switch {
		case !ruleset.ValidIfname(name):
			errs = append(errs, fmt.Errorf("nft: Config.Flowtable.Uplinks: %q is not an interface name", name))
		case strings.HasPrefix(name, r.InterfacePrefix):
			errs = append(errs, fmt.Errorf("nft: Config.Flowtable.Uplinks: %s has the prefix of workloads", name))
		}
	}
	return errors.Join(errs...)
}
