// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"flag"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/policy"
)

// Settings is the agent's configuration. Two values can be compared with ==.
type Settings struct {
	// Node is the name of this node, as in spec.nodeName of its pods. Default: the machine's host
	// name.
	Node string
	// Manifests is a directory of Kubernetes and Calico manifests. The agent watches it for
	// changes. Empty means none.
	Manifests string
	// Resources is a directory of JSON files, each with one resource of package policy. The agent
	// watches the directory for changes. Empty means none.
	Resources string
	// Etcd lists the servers of an etcd that many nodes share. They are separated by commas, as in
	// "https://10.0.0.5:2379,https://10.0.0.6:2379". EtcdPrefix and EtcdCluster select the keys in
	// this etcd. If Etcd is empty, no etcd is used.
	Etcd, EtcdPrefix, EtcdCluster string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are PEM files: the certificate authorities of the
	// servers, and the agent's certificate and key.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// EtcdUsername is the user, if etcd requires one, and EtcdPasswordFile the file with the
	// password.
	EtcdUsername, EtcdPasswordFile string
	// Kubeconfig is the kubeconfig file for the API of a Kubernetes cluster. KubernetesContext is
	// the context in this file; empty means its current context. InCluster means that the agent
	// uses the service account of its pod. Without Kubeconfig and InCluster, no API is read.
	Kubeconfig, KubernetesContext string
	InCluster                     bool
	// KubernetesOmit lists the kinds of the API that are not read. They are separated by commas, as
	// in "nodes,ippools.projectcalico.org". Empty means that all kinds are read.
	KubernetesOmit string
	// KubernetesConfig is the NAMESPACE/NAME of the ConfigMap with settings for all nodes. The
	// ConfigMap for one node is NAME-node-NODE. Empty means none.
	KubernetesConfig string
	// KubernetesPodCIDRs means that the agent adds routes to the pod CIDRs of the nodes in the
	// Kubernetes API.
	KubernetesPodCIDRs bool
	// KubernetesVXLAN means that the nodes in the Kubernetes API get VXLAN tunnel addresses from
	// their pod CIDRs.
	KubernetesVXLAN bool
	// KubernetesIPIP means that the nodes in the Kubernetes API get addresses for IP-in-IP devices
	// from their pod CIDRs.
	KubernetesIPIP bool
	// KubernetesReport means that the agent writes Events, conditions and a NodeReport of the node
	// to the API.
	KubernetesReport bool
	// Wireguard means that traffic between nodes is encrypted. WireguardDir is the directory with
	// the private keys. All other settings of WireGuard have an effect only if Wireguard is set.
	Wireguard    bool
	WireguardDir string
	// WireguardPort is the UDP port of the first device. WireguardMTU is the MTU of the devices; 0
	// means that it is derived from the MTU of the node's interface.
	WireguardPort, WireguardMTU int
	// WireguardKeyLifetime is the age at which a key is replaced. 0 means never.
	WireguardKeyLifetime time.Duration
	// WireguardHostEncryption means that packets between the nodes' own addresses are encrypted,
	// too. WireguardUnencryptedHosts lists addresses or prefixes, separated by commas. Packets from
	// and to them are not encrypted. "none" means no address.
	WireguardHostEncryption   bool
	WireguardUnencryptedHosts string
	// WireguardRequireEncryption means that an unencrypted packet is dropped if this node encrypts
	// packets to the source of that packet. wireguard.Config.RequireEncryption lists the
	// destinations to which this applies.
	WireguardRequireEncryption bool
	// EndpointDir is the directory in which endpoints that were registered over the socket are
	// stored, so that they survive a restart. Empty means that endpoints cannot be registered.
	EndpointDir string
	// PolicySyncDir is the directory with the sockets from which processes in workloads read their
	// policy. Empty means no sockets.
	PolicySyncDir string
	// Table is the name of the nftables table. Nothing else may use it.
	Table string
	// SharedTable allows other processes to change the table. Otherwise, from Linux 6.9 on, only
	// the agent can change the table while it runs.
	SharedTable bool
	// InterfacePrefix is the prefix of the names of workloads' interfaces. All packets of an
	// interface with this prefix and without an endpoint are dropped.
	InterfacePrefix string
	// Bridges lists the bridges whose ports are workloads' interfaces. The names of the bridges are
	// separated by commas. A workload behind a bridge is identified by its address. Empty means
	// none.
	Bridges string
	// RouteProtocol is the protocol number of the agent's routes, neighbour entries and devices: 5
	// to 255. Nothing else may use the number, or its WireguardProtocol.
	RouteProtocol int
	// TrustAnnotations means that annotations of pods may set their interface and MAC address.
	TrustAnnotations bool
	// ForwardIPv6 switches on the forwarding of IPv6 between all interfaces of the node. Without
	// it, workloads cannot use IPv6 beyond the node.
	ForwardIPv6 bool
	// Socket is the path of the Unix socket for the other commands of the agent. Empty means none.
	Socket string
	// HTTPAddress is the address for health and metrics, such as "127.0.0.1:9919". Empty means
	// none.
	HTTPAddress string
	// HealthTimeout is how long a part of the agent may be busy without progress. After that, the
	// agent reports that it is unhealthy.
	HealthTimeout time.Duration
	// ApplyInterval limits the rate of attempts to program the kernel: on average, the time between
	// two attempts is at least ApplyInterval. ApplyBurst is the number of attempts that may follow
	// each other without a pause.
	ApplyInterval time.Duration
	ApplyBurst    int
	// ResyncInterval is the time between two comparisons of the kernel with the desired state. 0
	// means never.
	ResyncInterval time.Duration
	// VerdictLogGroup is the nflog group, from 0 to 65535, that gets the packets about which policy
	// decides, both allowed and denied ones. The value -1 means that no packets are logged.
	VerdictLogGroup int
	// Flows means that flows between workloads are counted, from the verdicts that are logged to
	// VerdictLogGroup.
	Flows bool
	// ConntrackPolicy decides what happens to an established connection if a change of policy
	// denies it: the connection continues or is ended.
	ConntrackPolicy conntrack.Policy
	// Flowtable means that packets of established connections take the kernel's fast path.
	// FlowtableUplinks are the names of interfaces to other hosts (uplinks), separated by commas.
	// Connections between a workload and one of these uplinks may use the fast path. If
	// FlowtableUplinks is empty, only connections between workloads may use it.
	Flowtable        bool
	FlowtableUplinks string
	// TCPFromSYN means that a TCP packet from or to a workload is dropped if it begins a connection
	// but is not a SYN.
	TCPFromSYN bool
	// NATExcludeNodes means that packets from pods of NATOutgoing pools to nodes keep their source
	// address.
	NATExcludeNodes bool
	// TunnelsFromNodes decides whether VXLAN and IP-in-IP packets to the node are dropped if their
	// source is not an address of a Node. With "true" they are dropped, with "false" they are not.
	// With "auto", VXLAN packets are dropped if KubernetesVXLAN is set, and IP-in-IP packets if
	// KubernetesIPIP is set; but if KubernetesOmit contains Nodes, neither is dropped.
	TunnelsFromNodes string
	// EndpointToHost decides about packets from a workload to its own node if the workload's policy
	// allows them. "drop" drops them, "accept" accepts them, and "return" leaves the decision to
	// other filters of the host's input. Default: "accept" with Kubeconfig or InCluster, otherwise
	// "drop".
	EndpointToHost string
	// RecordFile is the file to which the input of the agent's calculation graph is recorded.
	// RecordLimit is the maximum size of the file in MiB. If RecordFile is empty, nothing is
	// recorded.
	RecordFile  string
	RecordLimit int
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
}

// BridgeNames returns the names in Bridges, in order.
func (s Settings) BridgeNames() []string { return split(s.Bridges) }

// Uplinks returns the names in FlowtableUplinks, in order.
func (s Settings) Uplinks() []string { return split(s.FlowtableUplinks) }

// split returns the parts of a list that is separated by commas.
func split(list string) (parts []string) {
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

// OmittedKinds returns the kinds in KubernetesOmit, in order.
func (s Settings) OmittedKinds() []string { return split(s.KubernetesOmit) }

// ReadsKubernetes reports whether objects come from the API of a Kubernetes cluster.
func (s Settings) ReadsKubernetes() bool { return s.Kubeconfig != "" || s.InCluster }

// VXLANFromNodes reports whether VXLAN packets to the node are dropped if their source is not an
// address of a Node.
func (s Settings) VXLANFromNodes() bool { return s.fromNodes(s.KubernetesVXLAN) }

// IPIPFromNodes reports whether IP-in-IP packets to the node are dropped if their source is not an
// address of a Node.
func (s Settings) IPIPFromNodes() bool { return s.fromNodes(s.KubernetesIPIP) }

// fromNodes reports whether encapsulated packets are dropped if their source is not an address of a
// Node. The parameter used is true if the agent uses the encapsulation. With "auto", packets are
// dropped only if the agent also reads the Nodes of the Kubernetes API.
func (s Settings) fromNodes(used bool) bool {
	reads := s.ReadsKubernetes() && !slices.Contains(s.OmittedKinds(), "nodes")
	return s.TunnelsFromNodes == "true" || s.TunnelsFromNodes == "auto" && used && reads
}

// endpointToHost is the key of the setting EndpointToHost.
const endpointToHost = "endpoint-to-host"

// hostActions are the values of EndpointToHost.
func hostActions() map[string]policy.HostAction {
	return map[string]policy.HostAction{
		"drop": policy.HostDrop, "accept": policy.HostAccept, "return": policy.HostReturn,
	}
}

// EndpointToHostAction returns the action of EndpointToHost.
func (s Settings) EndpointToHostAction() policy.HostAction { return hostActions()[s.EndpointToHost] }

// SysctlFile returns the path of a file in the folder of the socket. Before the agent changes a
// sysctl, it stores the earlier value in this file. Without a socket, the path is empty.
func (s Settings) SysctlFile() string {
	if s.Socket == "" {
		return ""
	}
	return s.Socket + ".sysctls"
}

// local returns the keys that cannot be set in the datastore. A user who may write policy there
// must not decide, for example, about these things:
//
//   - the node's name
//   - whom the agent trusts
//   - what the agent owns in the kernel
//   - which files and sockets the agent uses
//   - when the agent is considered stuck
func local() map[string]bool {
	keys := map[string]bool{}
	for _, key := range []string{
		"node", "manifests", "resources", "endpoint-dir", "table", "shared-table", "interface-prefix", "bridges",
		"route-protocol", "trust-annotations", "socket", "http-address", "health-timeout", "record-file",
		"record-limit", "policy-sync-dir",
		"etcd", "etcd-prefix", "etcd-cluster", "etcd-ca-file", "etcd-cert-file", "etcd-key-file",
		"etcd-username", "etcd-password-file", "endpoint-to-host", "tunnels-from-nodes",
		"kubeconfig", "kubernetes-context", "in-cluster", "kubernetes-omit", "kubernetes-config",
		"kubernetes-pod-cidrs", "kubernetes-vxlan", "kubernetes-ipip", "kubernetes-report",
		"wireguard", "wireguard-dir", "wireguard-port", "wireguard-mtu", "wireguard-key-lifetime",
		"wireguard-host-encryption", "wireguard-unencrypted-hosts", "wireguard-require-encryption",
	} {
		keys[key] = true
	}
	return keys
}

// Declare declares a flag for each setting, with its value in s as the default.
func Declare(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.Node, "node", s.Node, "`NAME` of this node")
	DeclareSources(flags, s)
	DeclareEtcd(flags, s)
	DeclareKubernetes(flags, s)
	flags.StringVar(&s.KubernetesOmit, "kubernetes-omit", s.KubernetesOmit,
		"`KINDS` of the API that are not read, as in ippools.projectcalico.org, separated by commas; none if empty")
	flags.StringVar(&s.KubernetesConfig, "kubernetes-config", s.KubernetesConfig,
		"`NAMESPACE/NAME` of the ConfigMap with settings for all nodes; that of one node is NAME-node-NODE; none if "+
			"empty")
	flags.BoolVar(&s.KubernetesPodCIDRs, "kubernetes-pod-cidrs", s.KubernetesPodCIDRs,
		"make routes to the pod CIDRs of all nodes; the addresses of pods must be in the pod CIDR of their node")
	flags.BoolVar(&s.KubernetesVXLAN, "kubernetes-vxlan", s.KubernetesVXLAN,
		"give all nodes VXLAN devices, with the first address of their pod CIDRs; pools determine whether traffic "+
			"uses them")
	flags.BoolVar(&s.KubernetesIPIP, "kubernetes-ipip", s.KubernetesIPIP,
		"give all nodes IP-in-IP devices, with the first address of their IPv4 pod CIDRs; pools determine whether "+
			"traffic uses them")
	flags.BoolVar(&s.KubernetesReport, "kubernetes-report", s.KubernetesReport,
		"write Events of objects at fault, conditions and a NodeReport of the node to the API")
	declareWireguard(flags, s)
	flags.StringVar(&s.EndpointDir, "endpoint-dir", s.EndpointDir,
		"`DIR` that keeps registered endpoints across restarts; if empty, endpoints cannot be registered")
	flags.StringVar(&s.PolicySyncDir, "policy-sync-dir", s.PolicySyncDir,
		"`DIR` with a Unix socket for each endpoint, by which processes in the workload read its policy; none if empty")
	DeclareIdentity(flags, s)
	declarePrefix(flags, s)
	flags.BoolVar(&s.SharedTable, "shared-table", s.SharedTable,
		"let other processes change the table; if false, the agent owns the table while it runs (from Linux 6.9 on)")
	flags.BoolVar(&s.ForwardIPv6, "forward-ipv6", s.ForwardIPv6,
		"forward IPv6 packets between all interfaces of the node, so that workloads can use IPv6; the node then "+
			"ignores router advertisements")
	flags.StringVar(&s.HTTPAddress, "http-address", s.HTTPAddress,
		"`ADDRESS` to serve /livez, /readyz and /metrics on; none if empty")
	flags.DurationVar(&s.HealthTimeout, "health-timeout", s.HealthTimeout,
		"`TIME` without progress before a component is unhealthy")
	flags.DurationVar(&s.ApplyInterval, "apply-interval", s.ApplyInterval,
		"minimum mean `TIME` between two changes of the kernel")
	flags.IntVar(&s.ApplyBurst, "apply-burst", s.ApplyBurst,
		"`NUMBER` of changes that may follow each other without a pause")
	flags.DurationVar(&s.ResyncInterval, "resync-interval", s.ResyncInterval,
		"`TIME` between two comparisons of the kernel with the desired state; 0 for never")
	flags.IntVar(&s.VerdictLogGroup, "verdict-log-group", s.VerdictLogGroup,
		"`NUMBER` of the nflog group to which rules log the packets that they allow or deny, for the command drops; "+
			"-1: no logging")
	flags.BoolVar(&s.Flows, "flows", s.Flows,
		"count which workloads talk to each other, with packets, bytes and the policy that decided, for the command "+
			"flows; needs verdict-log-group, and sets net.netfilter.nf_conntrack_acct")
	flags.TextVar(&s.ConntrackPolicy, "conntrack-policy", s.ConntrackPolicy,
		"`POLICY` for established connections that a change of policy denies: keep allows them until they end, "+
			"end ends them")
	flags.BoolVar(&s.Flowtable, "flowtable", s.Flowtable,
		"let packets of established connections of workloads take the kernel's fast path, a flowtable, if it supports "+
			"that")
	flags.StringVar(&s.FlowtableUplinks, "flowtable-uplinks", s.FlowtableUplinks,
		"`NAMES` of the node's interfaces to other hosts, separated by commas: connections between a workload and an "+
			"uplink may use the fast path; if empty, only those between workloads")
	flags.StringVar(&s.RecordFile, "record-file", s.RecordFile,
		"`FILE` to record the agent's inputs in, for package calcgraph/replay; none if empty")
	flags.IntVar(&s.RecordLimit, "record-limit", s.RecordLimit, "size of the file in `MIB` after which recording ends")
	flags.TextVar(&s.LogLevel, "log-level", s.LogLevel, "minimum `LEVEL` that is logged: DEBUG, INFO, WARN or ERROR")
	explain(flags)
}

// DeclareSources declares the flags of the sources.
func DeclareSources(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.Manifests, "manifests", s.Manifests, "`DIR` with the manifests: *.yaml, *.yml and *.json")
	flags.StringVar(&s.Resources, "resources", s.Resources,
		"`DIR` with *.json files, each with a resource of Wayleave's own format")
	flags.BoolVar(&s.TrustAnnotations, "trust-annotations", s.TrustAnnotations,
		"let pods name their interface and MAC address by the annotations wayleave.dev/interface and wayleave.dev/mac")
}

// DeclareEtcd declares the flags that select an etcd and configure the connection to it.
func DeclareEtcd(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.Etcd, "etcd", s.Etcd,
		"`ENDPOINTS` of the etcd that nodes share, as in https://10.0.0.5:2379, separated by commas; none if empty")
	flags.StringVar(&s.EtcdPrefix, "etcd-prefix", s.EtcdPrefix, "`PREFIX` of all keys in etcd")
	flags.StringVar(&s.EtcdCluster, "etcd-cluster", s.EtcdCluster,
		"`NAME` of the cluster whose objects are read from etcd")
	flags.StringVar(&s.EtcdCAFile, "etcd-ca-file", s.EtcdCAFile,
		"`FILE` with the authorities of etcd's certificates, PEM; the system's if empty")
	flags.StringVar(&s.EtcdCertFile, "etcd-cert-file", s.EtcdCertFile,
		"`FILE` with the client's certificate for etcd, PEM")
	flags.StringVar(&s.EtcdKeyFile, "etcd-key-file", s.EtcdKeyFile, "`FILE` with the client's key for etcd, PEM")
	flags.StringVar(&s.EtcdUsername, "etcd-username", s.EtcdUsername,
		"`NAME` of the user of etcd, if it requires one")
	flags.StringVar(&s.EtcdPasswordFile, "etcd-password-file", s.EtcdPasswordFile,
		"`FILE` that holds the password of the user of etcd-username")
}

// DeclareKubernetes declares the flags of the Kubernetes API.
func DeclareKubernetes(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.Kubeconfig, "kubeconfig", s.Kubeconfig,
		"`FILE` with the access to the API of the Kubernetes cluster whose objects are read; none if empty")
	flags.StringVar(&s.KubernetesContext, "kubernetes-context", s.KubernetesContext,
		"`NAME` of the context in that file; its current one if empty")
	flags.BoolVar(&s.InCluster, "in-cluster", s.InCluster,
		"read the API of the Kubernetes cluster that the agent is a pod of, with the pod's service account")
}

// DeclareTable declares the flags of the nftables table.
func DeclareTable(flags *flag.FlagSet, s *Settings) {
	declareName(flags, s)
	declarePrefix(flags, s)
}

// DeclareIdentity declares the flags that identify an agent's objects in the kernel: the table, the
// route protocol, and the socket. (The names of the agent's lock and of the file with sysctls are
// derived from the socket.)
func DeclareIdentity(flags *flag.FlagSet, s *Settings) {
	declareName(flags, s)
	flags.IntVar(&s.RouteProtocol, "route-protocol", s.RouteProtocol,
		"protocol `NUMBER` of the agent's routes, from 5 to 255: unwanted routes with it are removed")
	flags.StringVar(&s.Socket, "socket", s.Socket, "`PATH` of the unix socket for the other commands; none if empty")
	explain(flags)
}

// KernelKeys returns the keys of the settings that configure the kernel state, except those of
// WireGuard.
func KernelKeys() []string {
	return []string{
		"table", "shared-table", "interface-prefix", "bridges", "route-protocol", "forward-ipv6", "tcp-from-syn",
		"nat-exclude-nodes", "tunnels-from-nodes", "endpoint-to-host", "verdict-log-group", "conntrack-policy",
		"flowtable", "flowtable-uplinks",
	}
}

// DeclareKernel declares the flags of KernelKeys and of the log.
func DeclareKernel(flags *flag.FlagSet, s *Settings) {
	all := flag.NewFlagSet("", flag.ContinueOnError)
	Declare(all, s)
	for _, key := range append(KernelKeys(), "log-level") {
		f := all.Lookup(key)
		flags.Var(f.Value, f.Name, f.Usage)
	}
}

func declareName(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.Table, "table", s.Table, "`NAME` of the nftables table, which must be the agent's alone")
}

func declarePrefix(flags *flag.FlagSet, s *Settings) {
	flags.StringVar(&s.InterfacePrefix, "interface-prefix", s.InterfacePrefix,
		"`PREFIX` of the names of workloads' interfaces; interfaces without an endpoint drop all packets")
	flags.StringVar(&s.Bridges, "bridges", s.Bridges,
		"`NAMES` of the bridges whose ports are workloads' interfaces, separated by commas; none if empty")
	flags.BoolVar(&s.TCPFromSYN, "tcp-from-syn", s.TCPFromSYN,
		"drop TCP packets of workloads that belong to no known connection and are not a SYN; set false if the node "+
			"did not track connections before the agent's first start")
	flags.BoolVar(&s.NATExcludeNodes, "nat-exclude-nodes", s.NATExcludeNodes,
		"do not translate the source of packets that pods of natOutgoing pools send to nodes, so that policy of "+
			"host endpoints sees the pod; nodes need routes to the pods")
	flags.StringVar(&s.TunnelsFromNodes, "tunnels-from-nodes", s.TunnelsFromNodes,
		"drop VXLAN and IP-in-IP packets to this node unless their source is an address of a Node. `MODE` is true, "+
			"false or auto. auto drops VXLAN with kubernetes-vxlan and IP-in-IP with kubernetes-ipip, but neither "+
			"if kubernetes-omit names nodes")
	flags.StringVar(&s.EndpointToHost, "endpoint-to-host", s.EndpointToHost,
		"what happens to packets from workloads to their own node that policy allows. `ACTION` is drop, accept or "+
			"return, which leaves them to other tables. Kubernetes needs accept, which is the default with "+
			"kubeconfig or in-cluster")
}

// Defaults returns the default settings.
func Defaults() Settings {
	host, _ := os.Hostname() // without a host name, the setting node is required
	return Settings{
		Node:             host,
		EtcdPrefix:       "/wayleave",
		EtcdCluster:      "default",
		EndpointDir:      "/var/lib/wayleave/endpoints",
		Table:            "wayleave",
		InterfacePrefix:  "way",
		RouteProtocol:    routes.DefaultProtocol,
		Socket:           DefaultSocket,
		HTTPAddress:      "127.0.0.1:9919",
		HealthTimeout:    30 * time.Second,
		ApplyBurst:       1,
		VerdictLogGroup:  -1,
		ConntrackPolicy:  conntrack.End,
		TCPFromSYN:       true,
		EndpointToHost:   "drop",
		TunnelsFromNodes: "auto",
		RecordLimit:      1024,

		KubernetesReport: true,

		WireguardDir: "/var/lib/wayleave/wireguard", WireguardPort: wireguard.DefaultPort,
	}
}

// DefaultSocket is the agent's default socket.
const DefaultSocket = "/run/wayleave/agent.sock"
