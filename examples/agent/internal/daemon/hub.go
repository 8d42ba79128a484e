// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"sync"
	"time"

	"github.com/wayleave/wayleave/examples/internal/api"
)

// backlog is the maximum number of pending events of a client.
const backlog = 1024

// hub sends events to clients that watch. A client that is too slow misses events, and receives the
// number of missed events. A hub is safe for concurrent use.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

type watcher struct {
	events chan api.Event
	missed int
}

func newHub() *hub { return &hub{watchers: map[*watcher]struct{}{}} }

// publish sends an event. It never waits.
func (h *hub) publish(kind, object, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for w := range h.watchers {
		if w.missed > 0 && len(w.events)+1 < backlog {
			w.events <- api.Event{Time: now, Type: "missed", Text: fmt.Sprintf("%d events were missed", w.missed)}
			w.missed = 0
		}
		select {
		case w.events <- api.Event{Time: now, Type: kind, Object: object, Text: text}:
		default:
			w.missed++
		}
	}
}

func (h *hub) join() *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watcher{events: make(chan api.Event, backlog)}
	h.watchers[w] = struct{}{}
	return w
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}
