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
	// Manifests is a directory of Kubernetes and Calico manifests. Run watches it for changes.
	// Empty means none.
	Manifests string
	// Resources is a directory of resources of package policy, as JSON. Run watches it for changes.
	// Empty means none.
	Resources string
	// Sources are further sources of desired state, such as a cluster. If several sources have an
	// object with the same key, the pipeline uses the object of the first source that has it. The
	// sources are in this order: the directory Manifests, the directory Resources, and then Sources
	// as listed. At least one source is required.
	//
	// Sources may also have different endpoints with the same interface. A source with Yields set
	// gives way: its workload endpoint is absent while an endpoint of a source without Yields has
	// the interface.
	Sources []datastore.NamedSource
	// Previous is an earlier pipeline. It has the same directories as this one, and must have
	// ended. If a directory cannot be read at the start, the objects that Previous had from it are
	// used until it can be read. Optional.
	Previous *Pipeline
	// Node is the name of this node, as in spec.nodeName of its pods. Required.
	Node string
	// NetNS is a file descriptor of the network namespace to program; it must stay open while Run
	// runs. 0 means the namespace of the process.
	NetNS int
	// Table is the name of the nftables table. Nothing else may use it. Default "wayleave".
	Table string
	// SharedTable lets other processes change the table; see nft.Config.Shared.
	SharedTable bool
	// InterfacePrefix is the prefix of the names of workloads' interfaces. If an interface has this
	// prefix but no endpoint, all its packets are dropped. Default "way".
	InterfacePrefix string
	// Bridges are the names of bridges whose ports are workloads' interfaces; see
	// render.Config.Bridges and routes.Config.Bridges.
	Bridges []string
	// RouteProtocol is the protocol number of routes and neighbour entries; see
	// routes.Config.Protocol.
	RouteProtocol uint8
	// TrustAnnotations means that the annotations of a pod may set its interface and its MAC
	// address.
	TrustAnnotations bool
	// ForwardIPv6 switches on the forwarding of IPv6 between all interfaces of the node. Without
	// it, workloads cannot use IPv6 beyond the node. With it, the node ignores router
	// advertisements.
	ForwardIPv6 bool
	// SysctlFile is the path of a file with the former values of sysctls, for Teardown; see
	// routes.Config.SysctlFile.
	SysctlFile string
	// Wireguard configures the encryption of traffic between nodes. Its fields Node, NetNS,
	// Protocol, FilterTable, SysctlFile and Logger are ignored: they come from this Config. Nil
	// means no encryption.
	Wireguard *wireguard.Config
	// VerdictLog configures the log of the packets about which policy decides, both allowed and
	// denied ones. They are sent to an nflog group. By default, no packets are logged.
	VerdictLog render.VerdictLog
	// ConntrackPolicy decides what happens to an established connection if a change of policy
	// denies it: the connection continues or is ended. By default, it continues.
	ConntrackPolicy conntrack.Policy
	// TCPFromSYN means that a TCP packet from or to a workload is dropped if it begins a connection
	// but is not a SYN.
	TCPFromSYN bool
	// Flowtable lets packets of established connections take the kernel's fast path.
	Flowtable nft.FlowtableConfig
	// NATExcludeNodes means that packets to nodes keep their source address; see
	// render.NATConfig.ExcludeNodes.
	NATExcludeNodes bool
	// VXLANFromNodesOnly and IPIPFromNodesOnly are the fields of policy.HostConfig with these
	// names.
	VXLANFromNodesOnly, IPIPFromNodesOnly bool
	// EndpointToHost decides about packets from a workload to its own node if the workload's policy
	// allows them. See policy.HostConfig.EndpointToHostAction for the values and the default.
	EndpointToHost policy.HostAction
	// Filter is called for each file of manifests before the file is decoded. It returns the part
	// of data to decode. If Filter is nil, each file is decoded as a whole.
	Filter func(file string, data []byte) []byte
	// ApplyInterval, ApplyBurst and ResyncInterval are the fields MinInterval, Burst and
	// ResyncEvery of dataplane.DriverConfig.
	ApplyInterval  time.Duration
	ApplyBurst     int
	ResyncInterval time.Duration
	// Record receives the input of the graph; see calcgraph.RunnerConfig.Record. RecordFailed is
	// called once if Record fails, which ends the recording. Optional.
	Record       io.Writer
	RecordFailed func(error)
	// BeforeWrite is called before rules, routes or WireGuard objects are written to the kernel. If
	// it returns an error, nothing is written, and Programmed receives that error. Once it has
	// returned an error, it must always return one. Optional.
	BeforeWrite func() error
	// Sockets is a folder with Unix sockets. If it is set, another process, which runs
	// ServeDataplanes, connects to these sockets and programs the kernel. This process then
	// programs nothing itself. State.Table returns nil, and fields that configure the kernel state
	// have an effect only in the other process. No further process may use the folder. Sockets
	// cannot be used together with Wireguard. Empty means that this process programs the kernel.
	Sockets string
	// PolicySync is a folder with a Unix socket for each endpoint of this node. Processes in the
	// workload read the endpoint's policy from the socket; see package policysync. Nothing else may
	// use the folder. Empty means no sockets.
	PolicySync string
	// Logger logs events. Nil means no logging.
	Logger *slog.Logger
	// Programmed is called each time after the driver has tried to bring the desired state into the
	// kernel. It is called on the driver's goroutine, so it must not block. Optional.
	Programmed func(State)
	// Drifted is called when another process has changed the kernel state. It is called on the same
	// goroutine as Programmed, so it must not block. Optional.
	Drifted func(dataplane.Drift)
	// Updated is called with the changes of the sources, before they take effect. It must not
	// block, and must not change the updates. Optional.
	Updated func([]policy.Update)
	// Rejected is called with the reason if an object, a file or a part of a file is rejected. It
	// is also called, with the reason, if a directory cannot be read. It is called from several
	// goroutines. Optional.
	Rejected func(error)
	// Absent is called for each object that the graph rejects, with its key; see calcgraph.Hooks.
	// Optional.
	Absent func(policy.Key, error)
	// Doubted is called when a policy has other doubts than before. A doubt is a field of a rule
	// that is not understood. The second argument has all doubts of the policy. It is nil if the
	// policy has none any more, or is deleted or invalid. See calcgraph.Hooks. Optional.
	Doubted func(policy.Key, *policy.DoubtError)
}

// State is the result of one attempt of the driver to program the desired state. It is safe for
// concurrent use.
type State struct {
	// Rules returns the table. The field is nil if this process has no table. Call the method Table
	// instead, which also works if the field is nil.
	Rules func() *ruleset.Table
	// Time is when the attempt ended.
	Time time.Time
	// Duration is the time that the attempt took. Events is the number of events in the batch; 0
	// for a retry or a resync.
	Duration time.Duration
	Events   int
	// InSync means that the first complete state of all sources is in the kernel, except for
	// objects at fault. The pipeline programs nothing until all sources are in sync.
	InSync bool
	// Err is a join of the errors of objects that could not be programmed.
	Err error
}

// Table returns a copy of the desired table, or nil if there is none yet. While Config.Programmed
// runs, Table returns the table that the driver has just tried to program: if Err is nil, the
// kernel has this table. Later, Table returns the latest desired table. The call takes time in
// proportion to the size of the table.
func (s State) Table() *ruleset.Table {
	if s.Rules == nil {
		return nil
	}
	return s.Rules()
}

// FromSettings returns the Config for the agent's settings. It leaves unset the fields that need
// more than settings, such as Sources, Wireguard, Logger and the callbacks.
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
		errs = append(errs, errors.New("pipeline: Config.Manifests, Resources or Sources: required"))
	}
	if c.Node == "" {
		errs = append(errs, errors.New("pipeline: Config.Node: required"))
	}
	if c.Sockets != "" && c.Wireguard != nil {
		errs = append(errs, errors.New("pipeline: Config.Sockets: cannot be combined with Wireguard"))
	}
	return errors.Join(errs...)
}
