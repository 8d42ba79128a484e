// SPDX-License-Identifier: Apache-2.0

package nft

import (
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

// backend is the name under which this package reports errors.
const backend = "nft"

// Config configures a Dataplane.
type Config struct {
	// Renderer configures the table: above all its name, which must be ours alone.
	Renderer render.Config
	// NetNS is a file descriptor of the network namespace whose packets to judge, needed
	// only during New. Zero means the namespace of the thread that calls New.
	NetNS int
	// Shared lets other processes change the table; see applier.Config. By default the Dataplane
	// owns it, from Linux 6.9 on: the kernel refuses the writes of all other processes until Close.
	// Set Shared if other programs must flush or delete the table.
	Shared bool
	// Interfaces returns all interfaces of the namespace, by name. Resync calls it; Apply calls it
	// for new endpoints, and while a host endpoint is found by address. With Interfaces set, Watch
	// does not report changes of interfaces: call Resync. Nil means to query the kernel.
	Interfaces func() (map[string]render.Interface, error)
	// ConntrackPolicy decides about established connections that a change of policy denies.
	// conntrack.Keep, the default, keeps them, at no cost. conntrack.End ends them; set
	// render.Config.TCPFromSYN with it. The connections of an address that changes hands always
	// end.
	ConntrackPolicy conntrack.Policy
	// Conntrack limits the rates at which conntrack.End judges and ends connections. Its NetNS and
	// BeforeEnd are not used. If its Logger is nil, Logger is used.
	Conntrack conntrack.Config
	// Flowtable lets packets of established connections take the kernel's fast path.
	Flowtable FlowtableConfig
	// BeforeWrite is called before each transaction; see applier.Config. If it fails, that transaction
	// and later ones are not sent. Connections of addresses that change hands may have ended before.
	// It is not called for the transactions that drop late packets of ended connections. Optional.
	BeforeWrite func() error
	// Logger logs events of the table. Nil discards.
	Logger *slog.Logger
}

// FlowtableConfig says which established connections of workloads may use a flowtable, the kernel's fast path: their
// packets bypass all chains, routing and connection tracking. It is for TCP and UDP (and GRE, where the kernel supports
// that) between two workloads of the node, and between a workload and an uplink. The flowtable is deleted before each
// change of endpoints and by Resync, and installed again afterwards, so connections end when they would end without it.
// It needs Linux 6.4 (or 6.1 from 6.1.37 on) with nft_flow_offload. Where that is missing, the Dataplane logs a
// *dataplane.FeatureError once, and all packets traverse the chains.
//
// Chains of other tables do not see these packets: their counters, marks and rate limits do not apply. The kernel
// keeps the route of a connection for as long as it is valid, so do not use it where other routing tables may take
// over, as those of WireGuard, nor where answers leave by another uplink than the one that their packets come from.
// docs/nft.md has the details, and when the flowtable is not there.
type FlowtableConfig struct {
	// Enabled turns it on. It is an error with render.Config.ReversePath and Bridges.
	Enabled bool
	// Uplinks are the names of the node's interfaces to other hosts, never those of workloads. Connections between a
	// workload and an uplink may use the fast path. None means only connections between workloads.
	Uplinks []string
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// revokeConfig returns the configuration of the Revoker.
func revokeConfig(c Config, late *late.Table) revoke.Config {
	sweeps := c.Conntrack
	sweeps.NetNS = c.NetNS
	if sweeps.Logger == nil {
		sweeps.Logger = c.Logger
	}
	return revoke.Config{
		Conntrack: sweeps, Table: c.Renderer.Table, Host: hostChains(), Late: late,
		Encapsulations: c.Renderer.Host.NodeEncapsulations(),
	}
}

// hostChains returns the names of the chains of policy of host endpoints.
func hostChains() revoke.HostChains {
	all, untrackedOut := render.HostChains()
	return revoke.HostChains{All: all, UntrackedOut: untrackedOut}
}

func (c Config) validate() error {
	var errs []error
	if c.NetNS < 0 {
		errs = append(errs, errors.New("nft: config: NetNS is no file descriptor"))
	}
	if c.ConntrackPolicy > conntrack.End {
		errs = append(errs, fmt.Errorf("nft: config: ConntrackPolicy: %s", c.ConntrackPolicy))
	}
	return errors.Join(errs...)
}

// validate checks what does not fit together with a renderer's configuration, which has its defaults.
func (c FlowtableConfig) validate(r render.Config) error {
	var errs []error
	if c.Enabled && (r.ReversePath || len(r.Bridges) > 0) {
		errs = append(errs, errors.New("nft: config: Flowtable works without ReversePath and Bridges only"))
	}
	for _, name := range c.Uplinks {
		switch {
		case !ruleset.ValidIfname(name):
			errs = append(errs, fmt.Errorf("nft: config: Flowtable: uplink %q: no name of an interface", name))
		case strings.HasPrefix(name, r.InterfacePrefix):
			errs = append(errs, fmt.Errorf("nft: config: Flowtable: uplink %s has the prefix of workloads", name))
		}
	}
	return errors.Join(errs...)
}
