package git

import "net/http"

// handleAgents notes who asks.
func handleAgents(got chan<- string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, serve http.Handler) {
		select {
		case got <- r.UserAgent():
		default:
		}
		serve.ServeHTTP(w, r)
	}
}
