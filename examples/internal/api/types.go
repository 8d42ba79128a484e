// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// Status is how the agent is.
type Status struct {
	Node    string    `json:"node"`
	Started time.Time `json:"started"`
	// Version is the version of the agent, as text.
	Version string `json:"version"`
	// Ready means that the desired state of the sources is in the kernel, except objects at fault, which Endpoints
	// counts.
	Ready bool `json:"ready"`
	// Waiting are the sources that are not in sync yet.
	Waiting []string `json:"waiting"`
	// Unreadable has, by source, why its directory cannot be read. Objects read before stay in
	// force.
	Unreadable map[string]string `json:"unreadable,omitempty"`
	// Pending means that a change is not in the kernel yet.
	Pending bool `json:"pending"`
	// LastError is the error of the last attempt to program; empty if it succeeded.
	LastError string `json:"lastError,omitempty"`
	// Failures counts attempts that failed since the last that did not.
	Failures int `json:"failures"`
	// Endpoints by state.
	Endpoints map[string]int `json:"endpoints"`
	// Objects that the sources have, and how many were Rejected since the start.
	Objects  int    `json:"objects"`
	Rejected uint64 `json:"rejected"`
	// Doubts are the policies in force with rules that are not understood, which fail closed.
	Doubts []Doubt `json:"doubts,omitempty"`
	// LastApply is when the kernel was last programmed, and how long that took.
	LastApply    time.Time     `json:"lastApply"`
	LastDuration time.Duration `json:"lastDurationNs"`
	// Attempts, Failed, Drifts, Repairs and Queue as in dataplane.Stats.
	Attempts uint64 `json:"attempts"`
	Failed   uint64 `json:"failed"`
	Drifts   uint64 `json:"drifts"`
	Repairs  uint64 `json:"repairs"`
	Queue    int    `json:"queue"`
	// Kernel lists features that the kernel refuses and the agent works without, with the effect.
	Kernel []string `json:"kernel,omitempty"`
	// Policy has the cost of policy and its limits; nil before the first apply.
	Policy *PolicyCost `json:"policy,omitempty"`
	// Disputes are the objects in the kernel that another process changes repeatedly.
	Disputes []string `json:"disputes,omitempty"`
	// Restarts of the pipeline because of changed settings.
	Restarts uint64 `json:"restarts"`
	// Store that nodes share, if there is one.
	Store *Store `json:"store,omitempty"`
	// Kubernetes is about the API that objects come from, if there is one.
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"`
	// Wireguard is about the encryption of traffic between nodes, once the devices work.
	Wireguard *Wireguard `json:"wireguard,omitempty"`
	// Recording is the file to which the agent's input is recorded; RecordingError is the reason why that has ended.
	Recording      string `json:"recording,omitempty"`
	RecordingError string `json:"recordingError,omitempty"`
	// Settings has the errors of settings that changed after the start and are invalid, by source and key; the previous
	// ones stay in effect.
	Settings []string `json:"settingsProblems,omitempty"`
}

// Wireguard has the keys of the node's WireGuard devices.
type Wireguard struct {
	// Keys that the Node resource is to have, as policy.WireguardKey.String writes them.
	Keys []string `json:"keys"`
	// Error is why they cannot be written to the Kubernetes API; empty if they are, or without that API.
	Error string `json:"error,omitempty"`
}

// Doubt names the fields of a policy that are not understood.
type Doubt struct {
	Key     policy.Key `json:"key"`
	Problem string     `json:"problem"`
}

// PolicyCost is the cost of policy and its limits: see render.ClassesConfig.
type PolicyCost struct {
	// Cost is the cost of all policy that is written as lookups. Limit limits it.
	Cost  int `json:"cost"`
	Limit int `json:"limit"`
	// Largest describes the most expensive group of endpoints in the form of lookups. LargestCost is its cost, which
	// GroupLimit limits.
	Largest     string `json:"largest"`
	LargestCost int    `json:"largestCost"`
	GroupLimit  int    `json:"groupLimit"`
	// ChainGroups counts the groups that are over a limit, and so in the form of chains. Chains describes the most
	// expensive of them, each with its cost.
	ChainGroups int      `json:"chainGroups"`
	Chains      []string `json:"chains,omitempty"`
}

// Store is how the agent and the store that nodes share get on.
type Store struct {
	// Connected means that the last request to the store succeeded; Error is the reason why not.
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
	// Delivered is the revision up to which everything has been read, InForce that up to which
	// everything is in the kernel.
	Delivered int64 `json:"delivered"`
	InForce   int64 `json:"inForce"`
	// Unreadable are the objects in the store that this agent cannot read, so that they are absent.
	Unreadable []policy.Key `json:"unreadable,omitempty"`
}

// Kubernetes is the state of reading from the API of a Kubernetes cluster.
type Kubernetes struct {
	// Server is the address of the API server.
	Server string `json:"server"`
	// InSync means that all objects have been read once.
	InSync bool `json:"inSync"`
	// Kinds has all kinds that are read or left out.
	Kinds []KubernetesKind `json:"kinds"`
	// FaultyObjects counts the objects that are not understood, Faulty has the first 100 of them.
	FaultyObjects int            `json:"faultyObjects"`
	Faulty        []FaultyObject `json:"faulty,omitempty"`
}

// KubernetesKind is the state of reading one kind.
type KubernetesKind struct {
	// Kind is plural and with its API group, as in "networkpolicies.networking.k8s.io".
	Kind string `json:"kind"`
	// State is waiting, synced, not served or omitted.
	State string `json:"state"`
	// Error is the reason why the kind cannot be read now, Since the time of the first failure. Its last objects stay.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Objects that the server has.
	Objects int `json:"objects"`
	// Revision is the resourceVersion up to which changes have been received.
	Revision string `json:"revision,omitempty"`
}

// FaultyObject is an object of the API that is not understood, in whole or in part.
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
	// Unjudged describes the traffic to which policy does not apply, and why; empty if there is none.
	Unjudged string `json:"unjudged,omitempty"`
	// Error is the reason for the state failed, Object the object at fault.
	Error  string      `json:"error,omitempty"`
	Object *policy.Key `json:"object,omitempty"`
	// Ingress and Egress are "tier: policy, policy", in order; Profiles come after them.
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

// Set is a set of addresses that rules refer to.
type Set struct {
	ID string `json:"id"`
	// Meaning is the selector or the service of the set.
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

// Ruleset is the nftables table as it was last written.
type Ruleset struct {
	Table string `json:"table"`
}

// Question is about a flow.
type Question struct {
	// From and To are pods (NAMESPACE/NAME) or addresses, Port is PROTOCOL[/PORT].
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
}

// Explanation has the rules that decide about a flow: as text, and as a verdict.Explanation in JSON.
type Explanation struct {
	Text        string          `json:"text"`
	Explanation json.RawMessage `json:"explanation"`
}

// Folder is a folder of manifests to plan for.
type Folder struct {
	// Files by name.
	Files map[string]string `json:"files"`
	// OnTop means that present objects stay, unless the files replace them.
	OnTop bool `json:"onTop"`
}

// Plan has the changes that a folder would make.
type Plan struct {
	// Kernel are the commands, of nft and ip, that would be run.
	Kernel string `json:"kernel"`
	// Objects that would come, change or go.
	Objects []string `json:"objects"`
	// Flips are the flows that would be judged otherwise, among the Flows that were tried.
	Flips []Flip `json:"flips"`
	Flows int    `json:"flows"`
	// NotTried is the reason why no flows were tried; usually empty.
	NotTried string `json:"notTried,omitempty"`
	// Rejected has the errors of objects in the files.
	Rejected []string `json:"rejected"`
}

// Flip is flows that would be judged otherwise.
type Flip struct {
	From   []string `json:"from"`
	To     []string `json:"to"`
	Ports  []string `json:"ports"`
	Before string   `json:"before"`
	After  string   `json:"after"`
	// Was and Now are the rules that decide.
	Was string `json:"was"`
	Now string `json:"now"`
}

// Verification is a part of the answer to verify: progress, or as the Last the result.
type Verification struct {
	// Done and All are the steps of the proof.
	Done int `json:"done,omitempty"`
	All  int `json:"all,omitempty"`
	// Last means that this is the result.
	Last bool `json:"last,omitempty"`
	// Differs means that the kernel's table is not the desired one, or that it decides otherwise than policy about some
	// packet.
	Differs bool `json:"differs,omitempty"`
	// Text is the result for people, Result for programs.
	Text   string          `json:"text,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is the reason why there is no result.
	Error string `json:"error,omitempty"`
}

// Event is something that happened.
type Event struct {
	Time time.Time `json:"time"`
	// Type is "watching" for the first event. Then it is "endpoint", "applied", "drift", "rejected", "doubt",
	// "settings" or "recording", or "missed" if the client is too slow.
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
	// From and To are the endpoints with the addresses, if there are any.
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
	// Policy (or profile) whose rule decided, its Tier, the rule's Direction, its place among those
	// of the direction, from 0, and its annotations.
	Policy      *policy.Key       `json:"policy,omitempty"`
	Tier        string            `json:"tier,omitempty"`
	Direction   string            `json:"direction,omitempty"`
	Rule        *int              `json:"rule,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Reason in words, where no rule decided.
	Reason string `json:"reason,omitempty"`
	// Missed is the number of verdicts before this one that were left out, because there were too many.
	Missed int `json:"missed,omitempty"`
}

// Flows has the known flows, the latest first.
type Flows struct {
	Flows []Flow `json:"flows"`
	// Connections is the number of connections whose packets are counted now.
	Connections int `json:"connections"`
	// Evicted is how many flows others have replaced, and Uncounted how many verdicts were of connections over the
	// limit, whose packets are not counted.
	Evicted   uint64 `json:"evicted,omitempty"`
	Uncounted uint64 `json:"uncounted,omitempty"`
	// MissedVerdicts is how many verdicts there was no room for, and MissedEnds how often the kernel had to drop
	// notifications of ends.
	MissedVerdicts uint64 `json:"missedVerdicts,omitempty"`
	MissedEnds     uint64 `json:"missedEnds,omitempty"`
}

// Flow is all connections from a source to a port of a destination about which one rule decided. It is plain data.
type Flow struct {
	// Source and Destination are endpoints, as in "shop/web", or addresses.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Protocol    string `json:"protocol"`
	Port        uint16 `json:"port,omitempty"`
	// Decision is "allow" or "deny".
	Decision string `json:"decision"`
	// Policy (or profile) whose rule decided, the rule's Direction and its place there, from 0.
	Policy    *policy.Key `json:"policy,omitempty"`
	Direction string      `json:"direction,omitempty"`
	Rule      *int        `json:"rule,omitempty"`
	// Reason in words, where no rule decided.
	Reason string `json:"reason,omitempty"`
	// Connections that were allowed.
	Connections uint64 `json:"connections"`
	// Packets and Bytes from the source, or those that were dropped.
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// ReplyPackets and ReplyBytes from the destination.
	ReplyPackets uint64 `json:"replyPackets"`
	ReplyBytes   uint64 `json:"replyBytes"`
	// First and Last are the times of the first and the last verdict or count.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Wait is a request to wait for an endpoint.
type Wait struct {
	// Endpoint is NAMESPACE/NAME.
	Endpoint string `json:"endpoint"`
}

// Registered is the state of a registered endpoint; it is empty for one that is not registered.
type Registered struct {
	Endpoint *policy.WorkloadEndpoint `json:"endpoint"`
	State    string                   `json:"state"`
	Error    string                   `json:"error,omitempty"`
}

// PodUID is the parameter, in a request to register or remove an endpoint that is a pod, with the pod's UID.
const PodUID = "pod-uid"

// RegistrationFile returns the name of the file, in the agent's directory of endpoints, that a
// registered endpoint is kept in.
func RegistrationFile(k policy.Key) string { return url.PathEscape(k.Namespace+"/"+k.Name) + ".json" }

// Failure is the body of an answer that is no success.
type Failure struct {
	Error string `json:"error"`
}
