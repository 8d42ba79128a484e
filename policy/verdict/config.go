// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Config has the settings of the nodes. They are not resources, so a World does not contain them.
// They apply only to flows with a Node, except Host.KeepInvalid, which applies to all flows. The
// zero value is usable.
type Config struct {
	// Host has the settings for traffic of the nodes themselves. The zero value means the defaults
	// of policy.HostConfig.
	Host policy.HostConfig
	// Interfaces has the addresses of the nodes' host interfaces, by node and name. Set it for each
	// node with a HostEndpoint that has no InterfaceName: the ExpectedIPs of the HostEndpoint then
	// determine its interface. On such a node, a flow through an interface that is not listed is
	// denied, because that may be the interface of the HostEndpoint.
	Interfaces map[string]map[string][]netip.Addr
}

// NewConfigured is New with a Config.
//
// Errors: cfg.Host is invalid.
func NewConfigured(w World, cfg Config) (*Evaluator, error) {
	if err := cfg.Host.Validate(); err != nil {
		return nil, fmt.Errorf("verdict: new: %w", err)
	}
	return newEvaluator(w, cfg), nil
}
