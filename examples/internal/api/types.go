// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// Status is the status of the agent.
type Status struct {
	Node    string    `json:"node"`
	Started time.Time `json:"started"`
	// Version is the version of the agent, as text.
	Version string `json:"version"`
	// Ready means that the desired state of the sources is in the kernel, except for objects at
	// fault.
	Ready bool `json:"ready"`
	// Waiting are the sources that have not been read completely yet.
	Waiting []string `json:"waiting"`
	// Unreadable has the sources whose directory cannot be read. The key is the name of the source,
	// and the value is the reason. Objects that were read before stay applied.
	Unreadable map[string]string `json:"unreadable,omitempty"`
	// Pending means that a change is not in the kernel yet.
	Pending bool `json:"pending"`
	// LastError is the error of the last attempt to program; empty if it succeeded.
	LastError string `json:"lastError,omitempty"`
	// Failures counts the attempts that failed since the last successful one.
	Failures int `json:"failures"`
	// Endpoints has the number of endpoints in each state, by the name of the state. Endpoints at
	// fault are included.
	Endpoints map[string]int `json:"endpoints"`
	// Objects is the number of objects that the sources have. Rejected is the number of rejections
	// since the start.
	Objects  int    `json:"objects"`
	Rejected uint64 `json:"rejected"`
	// Doubts are the enforced policies with rules that are not understood. Such rules are closed:
	// an Allow matches nothing, and any other rule denies everything.
	Doubts []Doubt `json:"doubts,omitempty"`
	// LastApply is when the kernel was last programmed, and LastDuration how long that took.
	LastApply    time.Time     `json:"lastApply"`
	LastDuration time.Duration `json:"lastDurationNs"`
	// Attempts, Failed, Drifts, Repairs and Queue are counters of dataplane.Stats.
	Attempts uint64 `json:"attempts"`
	Failed   uint64 `json:"failed"`
	Drifts   uint64 `json:"drifts"`
	Repairs  uint64 `json:"repairs"`
	Queue    int    `json:"queue"`
	// Kernel lists features that the kernel lacks. The agent works without them; each text
	// describes the difference.
	Kernel []string `json:"kernel,omitempty"`
	// Policy has the cost of policy, and the limits of this cost. It is nil before the first apply.
	Policy *PolicyCost `json:"policy,omitempty"`
	// Disputes are the objects in the kernel that another process changes repeatedly.
	Disputes []string `json:"disputes,omitempty"`
	// Restarts is how often the pipeline was restarted because settings changed.
	Restarts uint64 `json:"restarts"`
	// Store is the state of the etcd that nodes share, if there is one.
	Store *Store `json:"store,omitempty"`
	// Kubernetes is the state of the Kubernetes API that objects come from, if there is one.
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"`
	// Wireguard is the state of encryption between nodes. It is nil if there are no keys and no
	// RemovalError.
	Wireguard *Wireguard `json:"wireguard,omitempty"`
	// Recording is the file to which the agent's input is recorded. RecordingError is the reason
	// why the recording has ended.
	Recording      string `json:"recording,omitempty"`
	RecordingError string `json:"recordingError,omitempty"`
	// Settings has the problems of settings that the agent has read since its start. A problem
	// means that a setting is invalid, or takes effect only at the next start. Each text begins
	// with the source, followed by the key if there is one. The previous settings stay in effect.
	Settings []string `json:"settingsProblems,omitempty"`
}

// Wireguard has the keys of the node's WireGuard devices, and problems with them.
type Wireguard struct {
	// Keys are the keys that the Node resource must have, in the format of
	// policy.WireguardKey.String.
	Keys []string `json:"keys,omitempty"`
	// Error is the reason why the keys cannot be written to the Kubernetes API. It is empty if they
	// are written, or if there is no API.
	Error string `json:"error,omitempty"`
	// RemovalError is the reason why the agent, which no longer encrypts, could not yet remove the
	// WireGuard objects of an earlier run from the kernel. It is empty if there is no such problem.
	RemovalError string `json:"removalError,omitempty"`
}

// Doubt names the fields of a policy that are not understood.
type Doubt struct {
	Key     policy.Key `json:"key"`
	Problem string     `json:"problem"`
}

// PolicyCost has the kernel memory that policy takes, and its limits. The comment of
// render.ClassesConfig explains the unit and the limits.
//
// The agent writes the nftables rules for policy in one of two ways. Lookups, which search maps for
// a decision, are the default. Chains, which evaluate rule after rule, are the fallback where
// lookups cost too much. The agent chooses one of the two for each group. A group has the endpoints
// to which the same tiers, policies and profiles apply in one direction (ingress or egress).
type PolicyCost struct {
	// Cost is the cost of all policy that is written as lookups. Limit is its maximum.
	Cost  int `json:"cost"`
	Limit int `json:"limit"`
	// Largest describes the most expensive group of endpoints whose policy is written as lookups.
	// LargestCost is the cost of this group, and GroupLimit is the maximum for a group.
	Largest     string `json:"largest"`
	LargestCost int    `json:"largestCost"`
	GroupLimit  int    `json:"groupLimit"`
	// ChainGroups is the number of groups whose policy is written as chains, because of Limit or
	// GroupLimit. The field Chains describes the most expensive of these groups, each with its
	// cost.
	ChainGroups int      `json:"chainGroups"`
	Chains      []string `json:"chains,omitempty"`
}

// Store is the state of the etcd that nodes share, as this agent sees it.
type Store struct {
	// Connected means that the last request to the store succeeded. Otherwise Error is the reason.
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
	// Delivered is the revision up to which the graph has all changes. Applied is the revision up
	// to which all changes are in the kernel.
	Delivered int64 `json:"delivered"`
	Applied   int64 `json:"applied"`
	// Unreadable are the objects in the store that this agent cannot read. The agent treats them as
	// absent.
	Unreadable []policy.Key `json:"unreadable,omitempty"`
}

// Kubernetes is the state of the source that reads the API of a Kubernetes cluster.
type Kubernetes struct {
	// Server is the address of the API server.
	Server string `json:"server"`
	// InSync means that all objects have been read once.
	InSync bool `json:"inSync"`
	// Kinds has all kinds, those that are read and those that are left out.
	Kinds []KubernetesKind `json:"kinds"`
	// FaultyObjects counts the objects that the agent cannot use, in whole or in part. Faulty has
	// the first 100 of them.
	FaultyObjects int            `json:"faultyObjects"`
	Faulty        []FaultyObject `json:"faulty,omitempty"`
}

// KubernetesKind is the state of one kind of objects.
type KubernetesKind struct {
	// Kind is the plural name with the API group, as in "networkpolicies.networking.k8s.io".
	Kind string `json:"kind"`
	// State is waiting, synced, not served or omitted.
	State string `json:"state"`
	// Error is the reason why the kind cannot be read at the moment, and Since is the time when
	// Error last changed. The objects that were last read stay applied.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Objects is the number of objects of the kind.
	Objects int `json:"objects"`
	// Revision is the resourceVersion up to which changes have been received.
	Revision string `json:"revision,omitempty"`
}

// FaultyObject is an object of the API that the agent cannot use, in whole or in part.
type FaultyObject struct {
	Object  string `json:"object"`
	Problem string `json:"problem"`
}

// Endpoint is a local endpoint.
type Endpoint struct {
	Key       policy.Key `json:"key"`
	State     string     `json:"state"`
	Interface string     `json:"interface"`
	Addresses []string   `json:"addresses"`
	// Generation counts the changes of the endpoint.
	Generation uint64 `json:"generation"`
	// Unjudged describes the part of the endpoint's traffic that policy does not see, and the
	// reason. It is empty if there is no such traffic.
	Unjudged string `json:"unjudged,omitempty"`
	// Error is the reason if the State is "failed". Object is the object at fault.
	Error  string      `json:"error,omitempty"`
	Object *policy.Key `json:"object,omitempty"`
	// Ingress and Egress have a text for each tier, in order: "tier: policy, policy". Profiles come
	// after the tiers.
	Ingress  []string `json:"ingress"`
	Egress   []string `json:"egress"`
	Profiles []string `json:"profiles"`
}

// Policy is a policy that is in use on the node.
type Policy struct {
	Key      policy.Key `json:"key"`
	Tier     string     `json:"tier"`
	Selector string     `json:"selector"`
	// Endpoints is how many local endpoints the policy selects.
	Endpoints int `json:"endpoints"`
}

// Set is a set of addresses to which rules refer.
type Set struct {
	ID string `json:"id"`
	// Meaning is the selector or the service that defines the set.
	Meaning string `json:"meaning"`
	Size    int    `json:"size"`
	// Owners is how many policies and profiles refer to the set.
	Owners  int      `json:"owners"`
	Members []string `json:"members,omitempty"`
}

// Route is a route of the node.
type Route struct {
	Dst  string `json:"dst"`
	Type string `json:"type"`
	Node string `json:"node,omitempty"`
	Via  string `json:"via,omitempty"`
	Pool string `json:"pool,omitempty"`
}

// Ruleset is the nftables table that was last written.
type Ruleset struct {
	Table string `json:"table"`
}

// Question is a request for the decision about a flow.
type Question struct {
	// From and To are pods (NAMESPACE/NAME) or addresses. Port is PROTOCOL[/PORT].
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
}

// Explanation has the rules that decide about a flow: as text, and as a verdict.Explanation in
// JSON.
type Explanation struct {
	Text        string          `json:"text"`
	Explanation json.RawMessage `json:"explanation"`
}

// Folder is a folder of manifests for which to plan.
type Folder struct {
	// Files has the content of the files, by name.
	Files map[string]string `json:"files"`
	// OnTop means that the files are added to the agent's objects and replace those with the same
	// keys. Otherwise they replace all manifests of the agent.
	OnTop bool `json:"onTop"`
}

// Plan has the changes that a folder would cause.
type Plan struct {
	// Kernel has the changes of the kernel state, as commands of nft and ip.
	Kernel string `json:"kernel"`
	// Objects are the objects that would be added, changed or removed.
	Objects []string `json:"objects"`
	// Flips are the flows whose verdict would change. Flows is the number of flows that were
	// evaluated.
	Flips []Flip `json:"flips"`
	Flows int    `json:"flows"`
	// NotTried is the reason why no flows were evaluated; usually empty.
	NotTried string `json:"notTried,omitempty"`
	// Rejected has the errors of objects in the files.
	Rejected []string `json:"rejected"`
}

// Flip has flows whose verdict would change in the same way.
type Flip struct {
	From   []string `json:"from"`
	To     []string `json:"to"`
	Ports  []string `json:"ports"`
	Before string   `json:"before"`
	After  string   `json:"after"`
	// Was and Now are the rules that decide before and after the change.
	Was string `json:"was"`
	Now string `json:"now"`
}

// Verification is a part of the answer to a verify request. Most parts report progress; the last
// part has the result.
type Verification struct {
	// Done is the number of steps that are done. All is the number of all steps.
	Done int `json:"done,omitempty"`
	All  int `json:"all,omitempty"`
	// Last means that this is the result.
	Last bool `json:"last,omitempty"`
	// Differs means that the kernel's table is not the desired one, or that the desired table and
	// policy decide differently about some packet.
	Differs bool `json:"differs,omitempty"`
	// Text is the result as text for people. Result is the result for programs.
	Text   string          `json:"text,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is the reason why there is no result.
	Error string `json:"error,omitempty"`
}

// Event is an event in the agent.
type Event struct {
	Time time.Time `json:"time"`
	// Type is "watching" for the first event. For other events, it is "endpoint", "applied",
	// "drift", "rejected", "doubt", "settings" or "recording". The type "missed" means that events
	// were left out, because the client was too slow.
	Type string `json:"type"`
	// Object of the event, if it has one.
	Object string `json:"object,omitempty"`
	// Text describes the event.
	Text string `json:"text"`
}

// Verdict is the decision about one packet.
type Verdict struct {
	Time time.Time `json:"time"`
	// Decision is "allow" or "deny".
	Decision string `json:"decision"`
	// From and To are the endpoints that have the addresses, if there are any.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Src and Dst are addresses.
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Protocol string `json:"protocol"`
	SrcPort  uint16 `json:"srcPort,omitempty"`
	DstPort  uint16 `json:"dstPort,omitempty"`
	// In and Out are interfaces of the node.
	In  string `json:"in,omitempty"`
	Out string `json:"out,omitempty"`
	// Policy is the policy or profile whose rule decided. Tier is the tier of the policy. Direction
	// is "ingress" or "egress". The field Rule is the index of the rule among the rules of this
	// direction, counted from 0. Annotations are the annotations of the rule.
	Policy      *policy.Key       `json:"policy,omitempty"`
	Tier        string            `json:"tier,omitempty"`
	Direction   string            `json:"direction,omitempty"`
	Rule        *int              `json:"rule,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Reason describes why the packet was allowed or denied, if no rule decided.
	Reason string `json:"reason,omitempty"`
	// Missed is the number of verdicts that were left out before this one, because there were too
	// many.
	Missed int `json:"missed,omitempty"`
}

// Flows has the known flows, the latest first.
type Flows struct {
	Flows []Flow `json:"flows"`
	// Connections is the number of connections whose packets are counted now.
	Connections int `json:"connections"`
	// Evicted is the number of flows that were removed to make room for newer ones. The agent
	// counts the packets of at most 65,536 allowed connections at a time. Uncounted is the number
	// of verdicts about further connections.
	Evicted   uint64 `json:"evicted,omitempty"`
	Uncounted uint64 `json:"uncounted,omitempty"`
	// MissedVerdicts is the number of verdicts that were lost because buffers were full. MissedEnds
	// is how often the kernel dropped notifications about the end of connections.
	MissedVerdicts uint64 `json:"missedVerdicts,omitempty"`
	MissedEnds     uint64 `json:"missedEnds,omitempty"`
}

// Flow has the counts of all connections that have the same source, destination, protocol and port,
// and were allowed or denied by the same rule.
type Flow struct {
	// Source and Destination are endpoints, as in "shop/web", or addresses.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Protocol    string `json:"protocol"`
	Port        uint16 `json:"port,omitempty"`
	// Decision is "allow" or "deny".
	Decision string `json:"decision"`
	// Policy is the policy or profile whose rule decided. Direction is "ingress" or "egress". The
	// field Rule is the index of the rule among the rules of this direction, counted from 0.
	Policy    *policy.Key `json:"policy,omitempty"`
	Direction string      `json:"direction,omitempty"`
	Rule      *int        `json:"rule,omitempty"`
	// Reason describes why the flow was allowed or denied, if no rule decided.
	Reason string `json:"reason,omitempty"`
	// Connections is the number of connections that were allowed.
	Connections uint64 `json:"connections"`
	// Packets and Bytes count the packets from the source. For a denied flow, they count the
	// dropped packets.
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// ReplyPackets and ReplyBytes count the packets from the destination.
	ReplyPackets uint64 `json:"replyPackets"`
	ReplyBytes   uint64 `json:"replyBytes"`
	// First and Last are the times of the first and the last change of these counts.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Wait is a request to wait for an endpoint.
type Wait struct {
	// Endpoint is NAMESPACE/NAME.
	Endpoint string `json:"endpoint"`
}

// Registered is a registered endpoint and its state. If the endpoint is not registered, all fields
// are zero.
type Registered struct {
	Endpoint *policy.WorkloadEndpoint `json:"endpoint"`
	State    string                   `json:"state"`
	Error    string                   `json:"error,omitempty"`
}

// PodUID is the name of the parameter with the UID of a pod. A request to register or remove the
// endpoint of a pod has this parameter.
const PodUID = "pod-uid"

// RegistrationFile returns the name of the file in which the agent stores a registered endpoint.
// The file is in the agent's directory of registered endpoints.
func RegistrationFile(k policy.Key) string { return url.PathEscape(k.Namespace+"/"+k.Name) + ".json" }

// Failure is the body of an answer with an error status.
type Failure struct {
	Error string `json:"error"`
}
