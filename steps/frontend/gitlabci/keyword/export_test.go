package keyword

// ReportTypes are the types of artifacts:reports.
var ReportTypes = reportTypes
