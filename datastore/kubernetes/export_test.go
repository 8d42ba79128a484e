// SPDX-License-Identifier: Apache-2.0

package kubernetes

import "time"

// SetServedInterval sets the interval of queries for kinds that the server does not have. It is
// called before Run.
func (s *Source) SetServedInterval(d time.Duration) {
	s.servedInterval = d
	s.discovery.maxAge = d
}
