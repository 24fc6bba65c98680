package storm

// serverStatus is what storm reads of the admin listener's /status. Whatever else is in it does not matter here.
type serverStatus struct {
	Plan struct {
		Limit int64 `json:"limit_bytes"`
		Lines []struct {
			Account string `json:"account"`
			Bytes   int64  `json:"bytes"`
			InUse   int64  `json:"in_use_bytes"` // absent if the line does not count
		} `json:"lines"`
	} `json:"plan"`
	Gates []struct {
		Name string            `json:"name"`
		Shed map[string]uint64 `json:"shed"`
	} `json:"gates"`
}
