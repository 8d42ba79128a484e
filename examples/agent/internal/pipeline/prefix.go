// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/policy"
)

// prefixCheck warns if the interface of a workload of this node does not begin with
// Config.InterfacePrefix. Policy applies to such an interface as long as its endpoint exists. After
// that, no rule drops its packets.
type prefixCheck struct {
	node, prefix string
	logger       *slog.Logger
	once         sync.Once // a prefix may be wrong for all endpoints of the node
}

func newPrefixCheck(cfg Config) *prefixCheck {
	return &prefixCheck{node: cfg.Node, prefix: cmp.Or(cfg.InterfacePrefix, "way"), logger: cfg.Logger}
}

// check checks the endpoints among the updates. It logs only the first endpoint with such an
// interface.
func (c *prefixCheck) check(updates []policy.Update) {
	for _, u := range updates {
		e, ok := u.Resource.(*policy.WorkloadEndpoint)
		if !ok || e.Node != c.node || strings.HasPrefix(e.Interface, c.prefix) {
			continue
		}
		c.once.Do(func() {
			c.logger.Warn("an interface does not begin with interface-prefix: its packets pass once its endpoint is "+
				"removed", "object", u.Key, "interface", e.Interface, "prefix", c.prefix)
		})
		return
	}
}
