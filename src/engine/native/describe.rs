//! Topics as the broker describes them: their ids, which tell a topic from another of the same name that was made after
//! it was deleted, and what who asks may do with them.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::bindings;
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;

/// How long the answer may take beyond the time the library gives its request.
const SLACK_MS: c_int = 1000;
/// The id of a topic on a broker that gives none.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its id, as Kafka's own tools print it; none on a broker that gives none.
    pub id: Option<String>,
    /// What who asks may do, as Kafka spells it; empty where that was not asked for.
    pub operations: Vec<&'static str>,
}

/// The name of a topic, and what it is or why that is not said.
pub type Answered = (String, Result<Described, RDKafkaErrorCode>);

/// Describes topics; blocks until the answer or the timeout. Topics that do not exist come with an error of their own.
#[allow(unsafe_code, reason = "rust-rdkafka does not describe topics")]
pub fn topics<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    with_operations: bool,
    timeout: Duration,
) -> Result<Vec<Answered>, KafkaError> {
    let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX - SLACK_MS);
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the client is borrowed for the whole call. The request is over with its event, or given up with the queue,
    // before anything it needs is destroyed: `Answer`, `Options`, `Names` and `Queue` destroy what they own once, in the
    // reverse order of their making. The library copies the names and the options when the request is made.
    unsafe {
        let native = client.native_ptr();
        let nothing = || KafkaError::AdminOpCreation("no memory for a request".into());
        let queue = Queue(NonNull::new(bindings::rd_kafka_queue_new(native)).ok_or_else(nothing)?);
        let collection = bindings::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let collection = Names(NonNull::new(collection).ok_or_else(nothing)?);
        let kind = bindings::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = Options(NonNull::new(bindings::rd_kafka_AdminOptions_new(native, kind)).ok_or_else(nothing)?);
        let set =
            bindings::rd_kafka_AdminOptions_set_request_timeout(options.0.as_ptr(), timeout_ms, ptr::null_mut(), 0);
        if set != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOpCreation("the timeout is not accepted".into()));
        }
        if with_operations {
            let error = bindings::rd_kafka_AdminOptions_set_include_authorized_operations(options.0.as_ptr(), 1);
            if !error.is_null() {
                bindings::rd_kafka_error_destroy(error);
                return Err(KafkaError::AdminOpCreation("operations cannot be asked for".into()));
            }
        }
        bindings::rd_kafka_DescribeTopics(native, collection.0.as_ptr(), options.0.as_ptr(), queue.0.as_ptr());
        let event = bindings::rd_kafka_queue_poll(queue.0.as_ptr(), timeout_ms.saturating_add(SLACK_MS));
        let Some(event) = NonNull::new(event) else {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut));
        };
        Answer(event).read()
    }
}

/// The answer to one request.
struct Answer(NonNull<bindings::rd_kafka_event_t>);

impl Answer {
    #[allow(unsafe_code, reason = "the answer is pointers")]
    fn read(&self) -> Result<Vec<Answered>, KafkaError> {
        let mut answered = Vec::new();
        // SAFETY: the event lives as long as `self`, and everything reached from it as long as the event. A result that is
        // of another kind is null. The library says how many topics it points to; their names and ids are never null
        // where there is no error, and looked at only then.
        unsafe {
            let error = bindings::rd_kafka_event_error(self.0.as_ptr());
            if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(KafkaError::AdminOp(error.into()));
            }
            let result = bindings::rd_kafka_event_DescribeTopics_result(self.0.as_ptr());
            if result.is_null() {
                return Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail));
            }
            let mut count = 0;
            let topics = bindings::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            for index in 0..count {
                let topic = *topics.add(index);
                let name = text(bindings::rd_kafka_TopicDescription_name(topic));
                let error = bindings::rd_kafka_TopicDescription_error(topic);
                // The code of no error is "no error".
                let code = bindings::rd_kafka_error_code(error);
                if code != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                    answered.push((name, Err(code.into())));
                    continue;
                }
                let id = bindings::rd_kafka_TopicDescription_topic_id(topic);
                let id = (!id.is_null()).then(|| text(bindings::rd_kafka_Uuid_base64str(id)));
                // The library writes the alphabet of mail, Kafka that of addresses.
                let id = id.map(|id| id.replace('+', "-").replace('/', "_")).filter(|id| id != NO_ID);
                let mut count = 0;
                let first = bindings::rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count);
                let count = if first.is_null() { 0 } else { count };
                let operations = (0..count).filter_map(|index| operation(*first.add(index))).collect();
                answered.push((name, Ok(Described { id, operations })));
            }
        }
        Ok(answered)
    }
}

/// The name of an operation on a topic.
fn operation(operation: bindings::rd_kafka_AclOperation_t) -> Option<&'static str> {
    use bindings::rd_kafka_AclOperation_t as Operation;
    match operation {
        Operation::RD_KAFKA_ACL_OPERATION_READ => Some("Read"),
        Operation::RD_KAFKA_ACL_OPERATION_WRITE => Some("Write"),
        Operation::RD_KAFKA_ACL_OPERATION_CREATE => Some("Create"),
        Operation::RD_KAFKA_ACL_OPERATION_DELETE => Some("Delete"),
        Operation::RD_KAFKA_ACL_OPERATION_ALTER => Some("Alter"),
        Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE => Some("Describe"),
        Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS => Some("DescribeConfigs"),
        Operation::RD_KAFKA_ACL_OPERATION_ALTER_CONFIGS => Some("AlterConfigs"),
        _ => None,
    }
}

/// A C string of the library, copied.
///
/// # Safety
/// Null, or a string that ends with a zero and lives during the call.
#[allow(unsafe_code, reason = "a C string")]
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What is destroyed once, with the value that owns it.
macro_rules! owned {
    ($($(#[$doc:meta])* $name:ident($native:ident) by $destroy:ident;)*) => {$(
        $(#[$doc])*
        struct $name(NonNull<bindings::$native>);

        impl Drop for $name {
            #[allow(unsafe_code, reason = "what is owned is the library's")]
            fn drop(&mut self) {
                // SAFETY: it is owned by this value alone and destroyed here once; the client outlives it.
                unsafe { bindings::$destroy(self.0.as_ptr()) }
            }
        }
    )*};
}

owned! {
    /// Where the answer comes.
    Queue(rd_kafka_queue_t) by rd_kafka_queue_destroy;
    /// The topics asked for.
    Names(rd_kafka_TopicCollection_t) by rd_kafka_TopicCollection_destroy;
    /// How it is asked.
    Options(rd_kafka_AdminOptions_t) by rd_kafka_AdminOptions_destroy;
}

impl Drop for Answer {
    #[allow(unsafe_code, reason = "the event is ours")]
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once; the queue it came from and the client outlive it.
        unsafe { bindings::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}
