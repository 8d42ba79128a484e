// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Report is what a node says of itself.
type Report struct {
	// Revision up to which everything is in force: in the kernel, not just received.
	Revision Revision
	// History that Revision belongs to, as passed to SourceHooks.Delivered. If it is nil, or the
	// store has another history, the report is written without a revision and as not in sync.
	History *History
	// InSync says that the first complete state is in force.
	InSync bool
	// Faults are the objects that could not be put in force, with the reason. The report has the first
	// MaxFaults by key, and the number of the others.
	Faults map[policy.Key]string
	// Endpoints of the node.
	Endpoints map[policy.Key]EndpointStatus
}

// MaxFaults is how many faults of a node are reported one by one.
const MaxFaults = 100

// EndpointStatus is the status of one endpoint of a node.
type EndpointStatus struct {
	// State is "pending", "up", "failed" or "down": what dataplane.EndpointState writes.
	State string `json:"state"`
	// Problem says why it failed or is down.
	Problem string `json:"problem,omitempty"`
	// Generation counts the updates of the endpoint.
	Generation uint64 `json:"generation,omitempty"`
}

// agentValue is the value of agents/<node>.
type agentValue struct {
	Revision Revision `json:"revision"`
	// id and raft term of the servers that the node last confirmed it to
	Cluster   uint64       `json:"cluster,omitempty"`
	Term      uint64       `json:"term,omitempty"`
	InSync    bool         `json:"inSync"`
	Endpoints int          `json:"endpoints"`
	Faulty    int          `json:"faulty"`
	Faults    []faultValue `json:"faults,omitempty"`
}

type faultValue struct {
	Key     policy.Key `json:"key"`
	Problem string     `json:"problem"`
}

// agent returns the value of the agent's key, not in sync: that is for the writer to add.
func (r Report) agent() agentValue {
	v := agentValue{Endpoints: len(r.Endpoints), Faulty: len(r.Faults)}
	for _, key := range slices.SortedFunc(maps.Keys(r.Faults), policy.Key.Compare) {
		if len(v.Faults) == MaxFaults {
			break
		}
		v.Faults = append(v.Faults, faultValue{Key: key, Problem: clip(r.Faults[key])})
	}
	return v
}

func (v *agentValue) decode(value []byte) error {
	return decodeValue(value, v, "revision", "cluster", "term", "inSync", "endpoints", "faulty", "faults")
}

// clip keeps a text short enough for a value.
func clip(s string) string {
	const most = 1000
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// markValue is the value of the mark.
type markValue struct {
	History string `json:"history"`
}

// settingsValue is the value of settings/global and settings/node/<node>.
type settingsValue struct {
	Settings json.RawMessage `json:"settings"`
}
