// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/policy"
)

// Config configures a Pipeline.
type Config struct {
	// Manifests is the directory of Kubernetes and Calico manifests. It is watched. Empty: there is
	// none.
	Manifests string
	// Resources is a directory of resources of Wayleave's own, as JSON. It is watched. Empty: there
	// is none.
	Resources string
	// Sources are further sources of desired state, such as that of a cluster. If several sources have an object, the
	// first is used: manifests, then resources, then these in order. At least one source is required. A workload
	// endpoint of a source with Yields is absent while its interface belongs to an endpoint with another key, of a
	// source without Yields.
	Sources []datastore.NamedSource
	// Previous is the pipeline before this one. It must have ended and have had the same
	// directories. If a directory cannot be read at the start, its objects in Previous are used
	// until it can. Optional.
	Previous *Pipeline
	// Node is the name of this node, as spec.nodeName of its pods has it. Required.
	Node string
	// NetNS is a file descriptor of the network namespace to program; it must stay open while Run
	// runs. 0 means that of the process.
	NetNS int
	// Table is the name of the nftables table, ours alone. Default "wayleave".
	Table string
	// SharedTable lets other processes change the table; see nft.Config.Shared.
	SharedTable bool
	// InterfacePrefix is the prefix of the names of workloads' interfaces. An interface with it but without an endpoint
	// drops all traffic. Default "way".
	InterfacePrefix string
	// Bridges are the names of bridges whose ports are workloads' interfaces; see
	// render.Config.Bridges and routes.Config.Bridges.
	Bridges []string
	// RouteProtocol is the protocol number of routes and neighbour entries; see
	// routes.Config.Protocol.
	RouteProtocol uint8
	// TrustAnnotations uses the annotations of pods with their interface and MAC address.
	TrustAnnotations bool
	// ForwardIPv6 switches on the forwarding of IPv6 between all interfaces of the node, without
	// which workloads have none. The node then ignores router advertisements.
	ForwardIPv6 bool
	// SysctlFile keeps the former values of sysctls for Teardown; see routes.Config.SysctlFile.
	SysctlFile string
	// Wireguard encrypts traffic between nodes. The fields Node, NetNS, Protocol, FilterTable, SysctlFile and
	// Logger are ignored: they come from this Config. Nil: nothing is encrypted.
	Wireguard *wireguard.Config
	// VerdictLog sends the packets that policy allows or denies to an nflog group. By default it
	// does not.
	VerdictLog render.VerdictLog
	// ConntrackPolicy decides about established connections that a change of policy denies. The
	// default keeps them.
	ConntrackPolicy conntrack.Policy
	// TCPFromSYN drops TCP packets of workloads that begin a connection without a SYN.
	TCPFromSYN bool
	// Flowtable lets packets of established connections take the kernel's fast path.
	Flowtable nft.FlowtableConfig
	// NATExcludeNodes keeps the source of packets to nodes; see render.NATConfig.ExcludeNodes.
	NATExcludeNodes bool
	// VXLANFromNodesOnly and IPIPFromNodesOnly are those of policy.HostConfig.
	VXLANFromNodesOnly, IPIPFromNodesOnly bool
	// EndpointToHost decides about packets from a workload to its own node that policy allows; see
	// policy.HostConfig.EndpointToHostAction, also for the default.
	EndpointToHost policy.HostAction
	// Filter is given every file of manifests before it is decoded, and returns what to decode.
	// Nil: all of it.
	Filter func(file string, data []byte) []byte
	// ApplyInterval, ApplyBurst and ResyncInterval are those of dataplane.DriverConfig:
	// MinInterval, Burst and ResyncEvery.
	ApplyInterval  time.Duration
	ApplyBurst     int
	ResyncInterval time.Duration
	// Record receives the input of the graph; see calcgraph.RunnerConfig.Record. RecordFailed is called once if Record
	// fails, which ends the recording. Optional.
	Record       io.Writer
	RecordFailed func(error)
	// BeforeWrite is called before rules, routes or WireGuard objects are written. If it fails, nothing is written and
	// the attempt fails with that error. After its first failure it must always fail. Optional.
	BeforeWrite func() error
	// Sockets is a folder with Unix sockets for the process that runs ServeDataplanes. This process then programs
	// nothing itself. No other process may use the folder. State.Table is then nil, and the fields that configure the
	// kernel state have an effect only in that process. It excludes Wireguard. Empty: the dataplanes are in this
	// process.
	Sockets string
	// PolicySync is a folder with a Unix socket for each endpoint of this node, by which processes in the workload read
	// its policy; see package policysync. It must be the agent's alone. Empty: there are none.
	PolicySync string
	// Logger receives events. Nil discards them.
	Logger *slog.Logger
	// Programmed is called after each attempt to program, on the driver's goroutine: it must not
	// block. Optional.
	Programmed func(State)
	// Drifted is called for changes of the kernel by other processes, in the same goroutine as Programmed. Optional.
	Drifted func(dataplane.Drift)
	// Updated is called with what changes in the sources, before it counts. It must not block, nor
	// change anything. Optional.
	Updated func([]policy.Update)
	// Rejected is called for each thing that is in a source and does not count, from several
	// goroutines. Optional.
	Rejected func(error)
	// Absent is called for each object that the graph rejects, with its key; see calcgraph.Hooks.
	// Optional.
	Absent func(policy.Key, error)
	// Doubted is called when the doubts of a policy change, with nil if there are none any more;
	// see calcgraph.Hooks. Optional.
	Doubted func(policy.Key, *policy.DoubtError)
}

// State is the result of one attempt to program. It is safe for concurrent use.
type State struct {
	// Rules is what Table calls. Nil: there is no table in this process.
	Rules func() *ruleset.Table
	// Time at which the attempt ended.
	Time time.Time
	// Duration of the attempt, Events of the batch; 0 for a retry or a resync.
	Duration time.Duration
	Events   int
	// InSync means that all sources are in sync, and their state has been sent to the kernel. Before, nothing is
	// programmed.
	InSync bool
	// Err is what could not be programmed.
	Err error
}

// Table returns a copy of the desired table, or nil before there is one. If Err is nil, the kernel has it. During a
// call of Programmed, it is the table of that attempt, and later the latest one. Its time is proportional to the size
// of the table.
func (s State) Table() *ruleset.Table {
	if s.Rules == nil {
		return nil
	}
	return s.Rules()
}

// FromSettings returns the Config of the agent's settings. It leaves out what other parts of the agent provide: sources
// except directories, WireGuard, the log, and hooks.
func FromSettings(s settings.Settings) Config {
	return Config{
		Manifests: s.Manifests, Resources: s.Resources, Node: s.Node,
		Table: s.Table, SharedTable: s.SharedTable, InterfacePrefix: s.InterfacePrefix, Bridges: s.BridgeNames(),
		TrustAnnotations: s.TrustAnnotations, ForwardIPv6: s.ForwardIPv6, RouteProtocol: uint8(s.RouteProtocol),
		SysctlFile:    s.SysctlFile(),
		ApplyInterval: s.ApplyInterval, ApplyBurst: s.ApplyBurst, ResyncInterval: s.ResyncInterval,
		VerdictLog:      render.VerdictLog{Enabled: s.VerdictLogGroup >= 0, Group: uint16(max(s.VerdictLogGroup, 0))},
		ConntrackPolicy: s.ConntrackPolicy, TCPFromSYN: s.TCPFromSYN, EndpointToHost: s.EndpointToHostAction(),
		Flowtable:       nft.FlowtableConfig{Enabled: s.Flowtable, Uplinks: s.Uplinks()},
		NATExcludeNodes: s.NATExcludeNodes, PolicySync: s.PolicySyncDir,

		VXLANFromNodesOnly: s.VXLANFromNodes(), IPIPFromNodesOnly: s.IPIPFromNodes(),
	}
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.BeforeWrite == nil {
		c.BeforeWrite = func() error { return nil }
	}
	if c.Programmed == nil {
		c.Programmed = func(State) {}
	}
	if c.Rejected == nil {
		c.Rejected = func(error) {}
	}
	if c.Absent == nil {
		c.Absent = func(policy.Key, error) {}
	}
	if c.Doubted == nil {
		c.Doubted = func(policy.Key, *policy.DoubtError) {}
	}
	if c.Updated == nil {
		c.Updated = func([]policy.Update) {}
	}
	if c.Filter == nil {
		c.Filter = func(_ string, data []byte) []byte { return data }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Manifests == "" && c.Resources == "" && len(c.Sources) == 0 {
		errs = append(errs, errors.New("pipeline: Config: Manifests, Resources or Sources are required"))
	}
	if c.Node == "" {
		errs = append(errs, errors.New("pipeline: Config.Node: a name is required"))
	}
	if c.Sockets != "" && c.Wireguard != nil {
		errs = append(errs, errors.New("pipeline: Config.Sockets: not together with Wireguard"))
	}
	return errors.Join(errs...)
}
