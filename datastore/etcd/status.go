// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Report is the report of a node.
type Report struct {
	// Revision up to which all changes are in the kernel.
	Revision Revision
	// History of the Revision, as passed to SourceHooks.Delivered. If it is nil, or not the History
	// of the store, the Reporter leaves out the revision. Then it also reports that the node is not
	// in sync.
	History *History
	// InSync means that the first complete state is in the kernel.
	InSync bool
	// Faults has the reason for each object at fault. The Reporter writes the first MaxFaults of
	// them, in the order of keys, and the number of all.
	Faults map[policy.Key]string
	// Endpoints of the node.
	Endpoints map[policy.Key]EndpointStatus
}

// MaxFaults is the maximum number of objects at fault for which a written report has a key and a
// reason.
const MaxFaults = 100

// EndpointStatus is the status of one endpoint of a node.
type EndpointStatus struct {
	// State is "pending", "up", "failed" or "down", with the meaning of dataplane.EndpointState.
	State string `json:"state"`
	// Problem is the reason why it is failed or down.
	Problem string `json:"problem,omitempty"`
	// Generation counts the updates of the endpoint.
	Generation uint64 `json:"generation,omitempty"`
}

// agentValue is the value of agents/<node>.
type agentValue struct {
	Revision Revision `json:"revision"`
	// The cluster id and raft term of the servers when the node last confirmed the report.
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

// agent returns the value of the agent's key, as not in sync. The writer sets InSync.
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

// clip limits the length of a text.
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
